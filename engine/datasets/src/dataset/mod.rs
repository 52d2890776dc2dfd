//! Data sets: lists of cases and the output of a pipeline for them.

mod cache;
mod cases;
mod csv;
mod decathlon;
mod dicom;
mod entry;
mod folds;
mod grid_patch;
mod grids;
mod identity;
mod in_memory;
mod items;
mod kfold;
mod lmdb;
mod partition;
mod persistent;
mod smart;
mod stored_cases;
mod table;
mod wsi;
mod zip;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use cache::free_memory;
pub use cache::{CacheDataset, CacheOptions};
pub use cases::TransformDataset;
pub(crate) use cases::{guarded, no_case, words_of};
pub(crate) use csv::csv_columns;
pub use csv::{Column, ColumnKind, CsvOptions, csv_items};
pub use decathlon::{DecathlonDataset, split_fraction};
pub(crate) use decathlon::{case_name, check_parts, listed_file, make_unique, names, read_list};
#[cfg(feature = "download")]
pub(crate) use dicom::collection;
pub use dicom::{dicom_items, dicom_items_preferring};
pub use entry::Storage;
pub use folds::{CrossValidation, cross_validation_list, select_cross_validation_folds};
pub use grid_patch::GridPatchDataset;
pub use grids::check_grids;
pub use identity::Identity;
pub use in_memory::CachePool;
pub use items::Items;
pub use kfold::{group_k_fold, k_fold, stratified_group_k_fold, stratified_k_fold};
pub use lmdb::LmdbDataset;
pub use partition::{
    PartitionOptions, partition_dataset, partition_dataset_classes, partition_ratios, partition_ratios_classes,
    resample_datalist,
};
pub use persistent::{CacheNTransDataset, PersistentDataset};
pub use smart::{SmartCacheDataset, SmartCacheOptions};
pub use stored_cases::StoreOptions;
pub use table::table_rows;
pub(crate) use table::{Row, first_rows, number, read as read_table};
pub use wsi::{PatchWSIDataset, WsiOptions, WsiPatch};
pub use zip::{PatchDataset, ZipDataset};

use crate::DataError;
use hearth_io::Parts;
use hearth_transforms::{Sample, Value};

/// One case: its name, the files of its keys, and its fields.
///
/// ```
/// use hearth_datasets::{Field, Item};
/// let item = Item::new("case_1").with("image", "ct.nii.gz").with("label", "seg.nii.gz");
/// let item = item.with_field("age", Field::Number(54.0));
/// assert!(item.has_file("label") && item.all_files().count() == 2);
/// assert_eq!(item.sample().values.len(), 3); // what a pipeline starts with
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Item {
    /// Name of the case; random draws depend on it, so it should be unique.
    pub case: String,
    /// Files by key: `image`, `label`.
    pub files: BTreeMap<String, PathBuf>,
    /// Images by key that consist of several files, or of some channels of one.
    pub parts: BTreeMap<String, Parts>,
    /// Numbers and strings by key, such as the columns of a table.
    pub fields: BTreeMap<String, Field>,
}

/// A field of a case: a number, several numbers, or a string.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged, expecting = "expected a number, a list of numbers, or a text")]
pub enum Field {
    /// A number.
    Number(f64),
    /// Several numbers.
    Numbers(Vec<f64>),
    /// A string.
    Text(String),
}

impl Item {
    /// Creates a case without files.
    pub fn new(case: impl Into<String>) -> Self {
        Item { case: case.into(), ..Item::default() }
    }

    /// Adds a file.
    pub fn with(mut self, key: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        self.files.insert(key.into(), path.into());
        self
    }

    /// Adds an image that consists of several files.
    pub fn with_parts(mut self, key: impl Into<String>, parts: Parts) -> Self {
        self.parts.insert(key.into(), parts);
        self
    }

    /// Whether a key has a file, or several.
    pub fn has_file(&self, key: &str) -> bool {
        self.files.contains_key(key) || self.parts.contains_key(key)
    }

    /// The files of every key, in the order of the keys.
    pub fn all_files(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.values().chain(self.parts.values().flat_map(|parts| &parts.files))
    }

    /// Adds a number, several numbers, or a string.
    pub fn with_field(mut self, key: impl Into<String>, field: Field) -> Self {
        self.fields.insert(key.into(), field);
        self
    }

    /// Creates the sample that a pipeline starts with.
    pub fn sample(&self) -> Sample {
        let fields = self.fields.iter().map(|(key, field)| {
            let value = match field {
                Field::Number(number) => Value::Number(*number),
                Field::Numbers(numbers) => Value::Numbers(numbers.as_slice().into()),
                Field::Text(text) => Value::Text(text.clone()),
            };
            (key, value)
        });
        let files = self.files.iter().map(|(key, path)| (key, Value::Path(path.clone())));
        let parts = self.parts.iter().map(|(key, parts)| (key, Value::Parts(parts.clone())));
        files.chain(parts).chain(fields).fold(Sample::new(&self.case), |sample, (key, value)| sample.with(key, value))
    }
}

/// A list of cases that are prepared on demand, from several threads at once.
///
/// ```
/// use hearth_datasets::{DataError, DataLoader, Dataset, LoaderOptions};
/// use hearth_image::{Image, affine, host_device};
/// use hearth_transforms::Sample;
///
/// /// Two images in memory.
/// struct Two;
///
/// impl Dataset for Two {
///     fn len(&self) -> usize {
///         2
///     }
///     fn case(&self, index: usize) -> &str {
///         ["first", "second"].get(index).copied().unwrap_or_default()
///     }
///     fn get(&self, index: usize, _epoch: u64) -> Result<Vec<Sample>, DataError> {
///         let values = vec![index as f32; 8];
///         let image = Image::from_values(values, [1, 2, 2, 2], affine::IDENTITY, &host_device());
///         Ok(vec![Sample::new(self.case(index)).with_image("image", image)])
///     }
/// }
///
/// let loader = DataLoader::new(Two, LoaderOptions::default().batch_size(2))?;
/// for batch in loader.epoch(1, 0) {
///     let batch = batch?;
///     assert_eq!(batch.tensor("image")?.dims(), [2, 1, 2, 2, 2]);
///     assert_eq!(batch.cases, ["first", "second"]);
/// }
/// # Ok::<(), DataError>(())
/// ```
pub trait Dataset: Send + Sync {
    /// The number of cases.
    fn len(&self) -> usize;

    /// Whether there is no case.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of a case; empty for an index that does not exist.
    fn case(&self, index: usize) -> &str;

    /// Starts an epoch: a loader calls this before it requests the first case.
    fn begin_epoch(&self, epoch: u64) {
        let _ = epoch;
    }

    /// Returns the samples of a case (several if the pipeline crops several). The same index and
    /// epoch return the same samples.
    ///
    /// # Errors
    /// If a file or a step of the pipeline fails, or there is no such index.
    fn get(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError>;

    /// Returns the samples of a case that a sampler draws several times in an epoch, with `before`
    /// earlier occurrences. Random steps draw other numbers each time. The default implementation
    /// does not distinguish occurrences.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    fn get_again(&self, index: usize, epoch: u64, before: u64) -> Result<Vec<Sample>, DataError> {
        let _ = before;
        self.get(index, epoch)
    }
}

/// The epoch number for the draws of a case with `before` earlier occurrences in this epoch; no run
/// has as many epochs.
pub(crate) fn epoch_again(epoch: u64, before: u64) -> u64 {
    epoch | before << 40
}

/// A shared data set is a data set.
impl<D: Dataset + ?Sized> Dataset for Arc<D> {
    fn len(&self) -> usize {
        (**self).len()
    }

    fn case(&self, index: usize) -> &str {
        (**self).case(index)
    }

    fn begin_epoch(&self, epoch: u64) {
        (**self).begin_epoch(epoch)
    }

    fn get(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError> {
        (**self).get(index, epoch)
    }

    fn get_again(&self, index: usize, epoch: u64, before: u64) -> Result<Vec<Sample>, DataError> {
        (**self).get_again(index, epoch, before)
    }
}
