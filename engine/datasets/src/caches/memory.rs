//! A cache of cases in memory: [`MemoryCache`].

use std::sync::Arc;

use hearth_registry::{Fault, entry};
use hearth_transforms::Pipeline;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Budget, Cache, CachePlace, CacheRun, Rate, check_storage, half, two};
use crate::{CacheDataset, CacheOptions, DataError, Dataset, Item, Storage};

/// Keeps cases in host or device memory (MONAI's `CacheDataset`). Cases with the same content are
/// kept once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryCache {
    /// Fraction of the cases, 0 to 1, or `auto`: as many as fit.
    pub rate: Rate,
    /// Maximum number of cases.
    pub num: Option<usize>,
    /// Number of threads that fill the cache.
    pub workers: usize,
    /// Where images are kept: `host`, or `same` for the training device.
    pub device: CachePlace,
    /// Type of cached values: `f32`, `exact` (the narrowest lossless type) or `f16`.
    pub storage: Storage,
    /// Whether to fill at the first use of each case instead of before the training.
    pub runtime: bool,
    /// Memory limit in GiB; in host memory, for all ranks of the machine together. It is an error
    /// if the cache needs more, unless `rate = "auto"`. The default is 9/10 of the machine's free
    /// memory, or `device_part` of the device's.
    pub limit_gib: Option<f64>,
    /// Fraction of the device's free memory that the cache may use with `device = "same"`; the rest
    /// is for the training.
    pub device_part: f64,
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
            device_part: half(),
        }
    }
}

impl MemoryCache {
    fn budget(&self) -> Budget {
        Budget { place: self.device, limit: self.limit_gib, part: self.device_part }
    }

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
            limit: self.budget().bytes(run),
            beside: run.beside.saturating_mul(run.ranks_here.max(1) as u64),
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

    fn storage(&self) -> Storage {
        self.storage
    }

    fn on_device(&self) -> bool {
        self.device == CachePlace::Same
    }

    fn limit(&self, run: &CacheRun) -> Option<u64> {
        (self.rate != Rate::Auto).then(|| self.budget().most(run))
    }

    fn check(&self) -> Result<(), Fault> {
        self.rate.check()?;
        self.budget().check()?;
        check_storage(self.storage, self.device)
    }
}

entry!(dyn Cache => MemoryCache, name: "cache", aliases: &["CacheDataset"], example: "rate = 0.5\nworkers = 4");
