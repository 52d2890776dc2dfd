//! Medical images from file to batch: readers and writers, transforms, data sets, loaders,
//! phantoms.
//!
//! An [`Image`] is a tensor with its position in the world. A [`Pipeline`] of [`transforms`] turns
//! the files of an [`Item`] into samples; a [`Dataset`] caches the part that is the same in every
//! epoch; a [`DataLoader`] prepares batches in advance.
//!
//! Every random draw depends only on seed, epoch, case, transform and rank ([`DrawKey`]), so that
//! the number of threads, the cache and resuming do not change results.
//!
//! ```
//! use hearth_data::transforms::{EnsureChannelFirst, LoadImage, ScaleIntensityRange};
//! use hearth_data::{DataLoader, DecathlonDataset, Items, LoaderOptions, Pipeline, phantom};
//!
//! let folder = tempfile::tempdir()?;
//! phantom::spleen(folder.path(), 2, &phantom::SpleenOptions::default().size(16))?;
//! let (both, window) = (["image", "label"], ScaleIntensityRange::new("image", -57.0, 164.0)); // HU
//! let steps = Pipeline::new((
//!     LoadImage::new(both),
//!     EnsureChannelFirst::new(both),
//!     window.b_min(0.0).b_max(1.0).clip(true),
//! ))?;
//! let cases = DecathlonDataset::open(folder.path())?.training;
//! let loader = DataLoader::new(cases.cached(&steps)?, LoaderOptions::default())?;
//! for batch in loader.epoch(1, 0) {
//!     let batch = batch?; // tensors [B, C, X, Y, Z]
//!     assert_eq!(batch.tensor("image")?.dims(), batch.tensor("label")?.dims());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate re-exports five others:
//!
//! | crate | content |
//! |---|---|
//! | [`hearth_image`] | [`Image`], [`affine`], [`orientation`], [`spatial`] |
//! | [`hearth_io`] | [`readers`], [`writers`], [`nifti`] |
//! | [`hearth_transforms`] | [`Transform`], [`Pipeline`], [`transforms`], [`patches`], [`tiny`] |
//! | [`hearth_datasets`] | [`Dataset`], [`caches`], [`layouts`], samplers, loaders, [`quality`] |
//! | [`hearth_phantom`] | [`phantom`] |

#![forbid(unsafe_code)]

pub use hearth_dicom as dicom;
pub use hearth_phantom as phantom;
pub use hearth_registry::Fault;
pub use hearth_slides as slides;

pub use hearth_image::{
    Affine, Applied, Image, Meta, OneOrMany, Select, Space, TransformError, affine, host_device, orientation, spatial,
};

pub use hearth_io::{
    NiftiError, NiftiOptions, Parts, ReadError, ReadOptions, Reader, WriteError, WriteOptions, nifti, read_image,
    read_image_with, read_nifti, read_nifti_on, write_image, write_nifti, writers,
};

pub use hearth_transforms::{
    BoxSource, Draw, DrawKey, Effect, IndexList, IndexSource, Keys, Optional, Pipeline, RecipeOptions, Sample,
    StepError, Steps, StoredImage, StoredIndices, Transform, Value, ValueState, all_steps, build_transform,
    cucim_names, for_each_step, image_fn, patches, setters, tiny, transforms,
};

#[cfg(feature = "download")]
pub use hearth_datasets::download;
pub use hearth_datasets::{
    Batch, Batches, CLEAR_LINE, CacheDataset, CacheNTransDataset, CacheOptions, CachePool, CaseLosses, Collate, Column,
    ColumnKind, CrossValidation, CsvOptions, DataError, DataLoader, Dataset, DecathlonDataset, DistributedSampler,
    DistributedWeightedRandomSampler, Field, GridPatchDataset, Identity, ImageInfo, Item, Items, LmdbDataset,
    LoaderOptions, PartitionOptions, PatchDataset, PatchLoader, PatchWSIDataset, PersistentDataset, Progress, Random,
    Running, Sampler, SamplerConfig, Sequential, SharedSampler, SmartCacheDataset, SmartCacheOptions, Storage,
    StoreOptions, ThreadDataLoader, TransformDataset, Turn, Weighted, WeightedRandomSampler, WsiOptions, WsiPatch,
    ZipDataset, caches, collate, cross_validation_list, csv_items, decollate, dicom_items, dicom_items_preferring,
    group_k_fold, k_fold, layouts, numpy, pad_collate, partition_dataset, partition_dataset_classes, partition_ratios,
    partition_ratios_classes, quality, resample_datalist, select_cross_validation_folds, split_fraction,
    stratified_group_k_fold, stratified_k_fold, table_rows, transform_batch,
};

/// Readers, chosen by a file's content first, then by its suffix.
pub mod readers {
    pub use hearth_datasets::check_grids;
    pub use hearth_io::readers::*;
}
