//! Medical images from file to batch: readers and writers, transforms, data sets, loaders,
//! phantoms.
//!
//! An [`Image`] is a tensor with its position in the world. A [`Pipeline`] of [`transforms`] turns
//! the files of an [`Item`] into samples; a [`Dataset`] caches the part that is the same in every
//! epoch; a [`DataLoader`] prepares batches in advance.
//!
//! Every random draw depends on seed, epoch, case, transform and rank only ([`DrawKey`]), so that
//! the number of threads, the cache and resuming do not change results.

pub mod affine;
mod batch_transforms;
mod blosc2;
pub mod caches;
mod collate;
mod cucim;
mod dataset;
#[cfg(feature = "download")]
pub mod download;
mod draw;
mod effect;
mod error;
mod image;
pub mod layouts;
mod loader;
pub mod nifti;
pub mod numpy;
pub mod orientation;
mod params;
pub mod patches;
pub mod phantom;
mod pipeline;
mod progress;
pub mod quality;
pub mod readers;
mod recipe;
mod sample;
mod sampler;
mod sampler_config;
mod select;
pub mod spatial;
mod stored;
pub mod tiny;
mod transform;
pub mod transforms;
mod workers;
pub mod writers;

pub use hearth_dicom as dicom;
pub use hearth_registry::Fault;
pub use hearth_slides as slides;

pub use affine::Affine;
pub use batch_transforms::transform_batch;
pub use collate::{Batch, Collate, ImageInfo, collate, decollate, pad_collate};
pub use cucim::cucim_names;
pub use dataset::{
    CacheDataset, CacheNTransDataset, CacheOptions, CachePool, Column, ColumnKind, CrossValidation, CsvOptions,
    Dataset, DecathlonDataset, Field, GridPatchDataset, Identity, Item, Items, LmdbDataset, PartitionOptions, Parts,
    PatchDataset, PatchWSIDataset, PersistentDataset, SmartCacheDataset, SmartCacheOptions, Storage, StoreOptions,
    TransformDataset, WsiOptions, WsiPatch, ZipDataset, cross_validation_list, csv_items, dicom_items,
    dicom_items_preferring, group_k_fold, k_fold, partition_dataset, partition_dataset_classes, partition_ratios,
    partition_ratios_classes, resample_datalist, select_cross_validation_folds, split_fraction,
    stratified_group_k_fold, stratified_k_fold,
};
pub use draw::{Draw, DrawKey};
pub use effect::Effect;
pub use error::{DataError, StepError, TransformError, ValueState};
pub use image::{Applied, Image, Meta, Space};
pub use loader::{Batches, DataLoader, LoaderOptions, PatchLoader, ThreadDataLoader};
pub use nifti::{NiftiError, NiftiOptions, read_nifti, read_nifti_on, write_nifti};
pub use params::{Keys, OneOrMany};
pub use pipeline::Pipeline;
pub use progress::{CLEAR_LINE, Progress, Running};
pub use readers::{ReadError, ReadOptions, Reader, read_image, read_image_with};
pub use recipe::{RecipeOptions, build_transform};
pub use sample::{Sample, Value};
pub use sampler::{
    DistributedSampler, DistributedWeightedRandomSampler, Sampler, SharedSampler, Turn, WeightedRandomSampler,
};
pub use sampler_config::{Random, SamplerConfig, Sequential, Weighted};
pub use select::Select;
pub use stored::{BoxSource, IndexList, IndexSource, StoredImage, StoredIndices};
pub use transform::{Steps, Transform};
pub use writers::{WriteError, WriteOptions, write_image};

use burn::tensor::Device;

/// The device that files are loaded to: the CPU.
pub fn host_device() -> Device {
    Device::flex()
}
