//! One database for all cases: [`LmdbCache`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_registry::entry;
use hearth_transforms::Pipeline;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cache, CachePlace, CacheRun, two};
use crate::{DataError, Dataset, Identity, Item, LmdbDataset, Storage, StoreOptions};

/// All cases are kept in one database in a folder, keyed by its content and the steps applied to
/// it. The cache outlives the run, and other recipes with the same steps reuse it (MONAI's
/// `LMDBDataset`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LmdbCache {
    /// The folder of the cache.
    pub dir: PathBuf,
    /// Threads that fill it.
    #[serde(default = "two")]
    pub workers: usize,
    /// Where images are kept: `host`, or `same` for the training device.
    #[serde(default)]
    pub device: CachePlace,
    /// The type of cached values: `f32`, `exact` (the narrowest lossless type) or `f16`.
    #[serde(default = "exact")]
    pub storage: Storage,
    /// Fill at the first use of each case instead of before the training.
    #[serde(default)]
    pub runtime: bool,
    /// How a changed source file is detected: `content`, or `stat` (path, size, time).
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

    fn storage(&self) -> Storage {
        self.storage
    }

    fn on_device(&self) -> bool {
        self.device == CachePlace::Same
    }
}

entry!(dyn Cache => LmdbCache, name: "lmdb", aliases: &["LMDBDataset"], example: "dir = \"cache\"");
