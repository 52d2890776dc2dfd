//! Cases in memory: [`MemoryCache`].

use std::sync::Arc;

use hearth_registry::{Fault, entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cache, CachePlace, CacheRun, Rate, check_storage, two};
use crate::{CacheDataset, CacheOptions, DataError, Dataset, Item, Pipeline, Storage};

/// Cases are kept in host or device memory (MONAI's `CacheDataset`). Cases with the same content
/// are kept once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryCache {
    /// The fraction of the cases, 0 to 1, or `auto`: as many as fit.
    pub rate: Rate,
    /// The maximum number of cases.
    pub num: Option<usize>,
    /// Threads that fill it.
    pub workers: usize,
    /// Where images are kept: `host`, or `same` for the training device.
    pub device: CachePlace,
    /// The type of cached values: `f32`, `exact` (the narrowest lossless type) or `f16`.
    pub storage: Storage,
    /// Fill at the first use of each case instead of before the training.
    pub runtime: bool,
    /// GiB that `rate = "auto"` may use; by default the free memory.
    pub limit_gib: Option<f64>,
}

impl Default for MemoryCache {
    fn default() -> Self {
        Self {
            rate: Rate::default(),
            num: None,
            workers: two(),
            device: CachePlace::Host,
            storage: Storage::F32,
            runtime: false,
            limit_gib: None,
        }
    }
}

impl MemoryCache {
    pub(super) fn options(&self, run: &CacheRun) -> CacheOptions {
        CacheOptions {
            rate: self.rate.part(),
            num: self.num,
            auto: self.rate == Rate::Auto,
            runtime: self.runtime,
            workers: self.workers,
            device: self.device.of(&run.device),
            storage: self.storage,
            progress: run.progress,
            limit: self.limit_gib.map(|gib| (gib * (1_u64 << 30) as f64) as u64),
            ..CacheOptions::default()
        }
    }
}

impl Cache for MemoryCache {
    fn dataset(&self, cases: Vec<Item>, steps: Arc<Pipeline>, run: &CacheRun) -> Result<Arc<dyn Dataset>, DataError> {
        Ok(Arc::new(CacheDataset::new(cases, steps, self.options(run))?))
    }

    fn kept(&self, cases: usize) -> usize {
        self.rate.kept(cases, self.num)
    }

    fn on_device(&self) -> bool {
        self.device == CachePlace::Same
    }

    fn check(&self) -> Result<(), Fault> {
        self.rate.check()?;
        if let Some(limit) = self.limit_gib.filter(|limit| *limit <= 0.0 || !limit.is_finite()) {
            return Err(Fault::at("limit_gib", format!("{limit} GiB hold nothing")));
        }
        check_storage(self.storage, self.device)
    }
}

entry!(dyn Cache => MemoryCache, name: "cache", aliases: &["CacheDataset"], example: "rate = 0.5\nworkers = 4");
