//! Data sets of medical images: from folders and lists on disk to batches.
//!
//! A [`layout`](layouts) lists the cases of a folder as [`Item`]s. A [`Dataset`] runs a pipeline on
//! them and [keeps](caches) the part that is the same in every epoch; a [`DataLoader`] prepares
//! batches in advance, in the order of a [`Sampler`]. [`quality`] checks data before training.
//!
//! ```
//! use hearth_datasets::{DataLoader, Item, Items, LoaderOptions};
//! use hearth_image::{Image, affine, host_device};
//! use hearth_transforms::Pipeline;
//! use hearth_transforms::transforms::{EnsureChannelFirst, LoadImage, RandFlip};
//!
//! let folder = tempfile::tempdir()?;
//! let mut items = Vec::new();
//! for case in ["a", "b", "c"] {
//!     let path = folder.path().join(format!("{case}.nii.gz"));
//!     let image = Image::from_values(vec![1.0; 64], [1, 4, 4, 4], affine::IDENTITY, &host_device());
//!     hearth_io::write_nifti(&path, &image, hearth_io::NiftiOptions::image())?;
//!     items.push(Item::new(case).with("image", path));
//! }
//! let load = (LoadImage::new("image"), EnsureChannelFirst::new("image"));
//! let steps = Pipeline::new((load, RandFlip::new("image")))?;
//! let options = LoaderOptions::default().batch_size(2).shuffle(true);
//! let loader = DataLoader::new(items.cached(&steps)?, options)?;
//! let batches = loader.epoch(1, 0).collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(batches[0].tensor("image")?.dims(), [2, 1, 4, 4, 4]);
//! assert_eq!((batches.len(), batches[1].cases.len()), (2, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

mod batch_transforms;
pub mod caches;
mod case_losses;
mod collate;
mod dataset;
#[cfg(feature = "download")]
pub mod download;
mod error;
pub mod layouts;
mod loader;
pub mod numpy;
mod progress;
pub mod quality;
mod sampler;
mod sampler_config;
mod sampler_plugin;
mod workers;

pub use batch_transforms::transform_batch;
pub use case_losses::CaseLosses;
pub use collate::{Batch, Collate, ImageInfo, collate, decollate, pad_collate};
pub use dataset::{
    CacheDataset, CacheNTransDataset, CacheOptions, CachePool, Column, ColumnKind, CrossValidation, CsvOptions,
    Dataset, DecathlonDataset, Field, GridPatchDataset, Identity, Item, Items, LmdbDataset, PartitionOptions,
    PatchDataset, PatchWSIDataset, PersistentDataset, SmartCacheDataset, SmartCacheOptions, Storage, StoreOptions,
    TransformDataset, WsiOptions, WsiPatch, ZipDataset, check_grids, cross_validation_list, csv_items, dicom_items,
    dicom_items_preferring, group_k_fold, k_fold, partition_dataset, partition_dataset_classes, partition_ratios,
    partition_ratios_classes, resample_datalist, select_cross_validation_folds, split_fraction,
    stratified_group_k_fold, stratified_k_fold, table_rows,
};
pub use error::DataError;
pub use loader::{Batches, DataLoader, LoaderOptions, PatchLoader, ThreadDataLoader};
pub use progress::{CLEAR_LINE, Progress, Running};
pub use sampler::{
    DistributedSampler, DistributedWeightedRandomSampler, Sampler, SharedSampler, Turn, WeightedRandomSampler,
};
pub use sampler_config::{Random, SamplerConfig, Sequential, Weighted};
