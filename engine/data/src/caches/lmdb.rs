//! One database for all cases: [`LmdbCache`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_registry::entry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cache, CachePlace, CacheRun, two};
use crate::{DataError, Dataset, Identity, Item, LmdbDataset, Pipeline, Storage, StoreOptions};

/// All cases are kept in one database in a folder, each by its content and the steps that made it:
/// it outlives the run, and serves other recipes with the same steps (MONAI's `LMDBDataset`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LmdbCache {
    /// The folder that cases are kept in.
    pub dir: PathBuf,
    /// Threads that fill it.
    #[serde(default = "two")]
    pub workers: usize,
    /// Where images are: `host`, or `same` for the device that trains.
    #[serde(default)]
    pub device: CachePlace,
    /// In which type values are kept: `f32`, `exact` (the narrowest that loses nothing) or `f16`.
    #[serde(default = "exact")]
    pub storage: Storage,
    /// Fill at the first use of each case rather than before the training.
    #[serde(default)]
    pub runtime: bool,
    /// How a source file is known again: `content`, or `stat` (path, size, time).
    #[serde(default)]
    pub identity: Identity,
}

fn exact() -> Storage {
    Storage::Exact
}

impl Cache for LmdbCache {
    fn dataset(&self, cases: Vec<Item>, steps: Arc<Pipeline>, run: &CacheRun) -> Result<Arc<dyn Dataset>, DataError> {
        let (identity, storage, device) = (self.identity, self.storage, self.device.of(&run.device));
        let options = StoreOptions { identity, storage, device, ..StoreOptions::default() };
        let dataset = LmdbDataset::new(cases, steps, &self.dir, options)?;
        if !self.runtime {
            dataset.fill(self.workers, run.progress)?;
        }
        Ok(Arc::new(dataset))
    }

    fn kept(&self, cases: usize) -> usize {
        cases
    }

    fn dir(&self) -> Option<&Path> {
        Some(&self.dir)
    }

    fn on_device(&self) -> bool {
        self.device == CachePlace::Same
    }
}

entry!(dyn Cache => LmdbCache, name: "lmdb", aliases: &["LMDBDataset"], example: "dir = \"cache\"");
