//! Data sets: lists of cases, and what a pipeline makes of them.

mod cache;
mod decathlon;
mod partition;
mod wsi;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

pub use cache::{CacheDataset, CacheOptions};
pub use decathlon::DecathlonDataset;
pub use partition::{PartitionOptions, partition_dataset, partition_ratios};
pub use wsi::{PatchWSIDataset, WsiOptions, WsiPatch};

use crate::{DataError, DrawKey, Pipeline, Sample, Value};

/// One case: its name, and the files of its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// Name of the case; random draws depend on it, so it should be unique.
    pub case: String,
    /// Files by key: `image`, `label`.
    pub files: BTreeMap<String, PathBuf>,
}

impl Item {
    /// A case without files.
    pub fn new(case: impl Into<String>) -> Self {
        Item { case: case.into(), files: BTreeMap::new() }
    }

    /// Adds a file.
    pub fn with(mut self, key: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        self.files.insert(key.into(), path.into());
        self
    }

    /// The sample a pipeline starts with.
    pub fn sample(&self) -> Sample {
        self.files
            .iter()
            .fold(Sample::new(&self.case), |sample, (key, path)| sample.with(key, Value::Path(path.clone())))
    }
}

/// A list of cases that are made ready on demand, from several threads at once.
pub trait Dataset: Send + Sync {
    /// Number of cases.
    fn len(&self) -> usize;

    /// Whether there is no case.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Name of a case; empty for an index that does not exist.
    fn case(&self, index: usize) -> &str;

    /// The samples of a case (several where the pipeline crops several). The same index and epoch give the same samples.
    ///
    /// # Errors
    /// Where a file or a step of the pipeline fails, or there is no such index.
    fn get(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError>;
}

/// Runs the whole pipeline at every access.
#[derive(Debug)]
pub struct TransformDataset {
    items: Vec<Item>,
    pipeline: Arc<Pipeline>,
    seed: u64,
    rank: u64,
}

impl TransformDataset {
    /// Cases and what to do with them.
    ///
    /// # Errors
    /// Where a case lacks a file that the pipeline loads.
    pub fn new(items: Vec<Item>, pipeline: Arc<Pipeline>, seed: u64, rank: u64) -> Result<Self, DataError> {
        check_items(&items, &pipeline)?;
        Ok(TransformDataset { items, pipeline, seed, rank })
    }
}

impl Dataset for TransformDataset {
    fn len(&self) -> usize {
        self.items.len()
    }

    fn case(&self, index: usize) -> &str {
        self.items.get(index).map_or("", |item| &item.case)
    }

    fn get(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError> {
        let item = self.items.get(index).ok_or_else(|| no_case(index, self.items.len()))?;
        guarded(&item.case, || Ok(self.pipeline.run(item.sample(), DrawKey::new(self.seed, epoch, self.rank))?))
    }
}

fn no_case(index: usize, count: usize) -> DataError {
    DataError::Option(format!("there is no case {index}; the data set has {count}"))
}

fn check_items(items: &[Item], pipeline: &Pipeline) -> Result<(), DataError> {
    let keys = pipeline.input_keys();
    let optional = |key: &str| {
        pipeline.steps().iter().map(|s| s.describe()).any(|d| {
            d["name"] == "LoadImage"
                && d["allow_missing_keys"] == true
                && d["keys"].as_array().is_some_and(|k| k.iter().any(|k| k == key))
        })
    };
    for item in items {
        if let Some(key) = keys.iter().find(|k| !item.files.contains_key(*k) && !optional(k)) {
            let known: Vec<&String> = item.files.keys().collect();
            return Err(DataError::Option(format!(
                "case {}: no file for `{key}`, which the pipeline loads; there are files for {known:?}",
                item.case
            )));
        }
    }
    Ok(())
}

/// Turns a panic (of a decoder, say) into an error of that case.
fn guarded<T>(case: &str, work: impl FnOnce() -> Result<T, DataError>) -> Result<T, DataError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let what = panic
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "unknown panic".to_owned());
        Err(DataError::Panic { case: case.to_owned(), what: format!("panicked: {what}") })
    })
}
