//! A window of the cases in memory: [`SmartCache`].

use std::sync::Arc;

use hearth_registry::{Fault, entry};
use hearth_transforms::Pipeline;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Budget, Cache, CachePlace, CacheRun, MemoryCache, Rate, check_storage, half, two};
use crate::{DataError, Dataset, Item, SmartCacheDataset, SmartCacheOptions, Storage};

/// Keeps a window of the cases in memory, which moves each epoch, while threads prepare the next
/// cases (MONAI's `SmartCacheDataset`). Validation uses all cases, which are kept as by `cache`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SmartCache {
    /// Fraction of the cases that is kept at a time, 0 to 1.
    pub rate: Rate,
    /// Maximum number of cases.
    pub num: Option<usize>,
    /// Number of threads that fill the cache.
    pub workers: usize,
    /// Where images are kept: `host`, or `same` for the training device.
    pub device: CachePlace,
    /// Type of cached values: `f32`, `exact` (the narrowest lossless type) or `f16`.
    pub storage: Storage,
    /// Fraction of the cached cases that is replaced each epoch, above 0.
    pub replace_rate: f64,
    /// Whether the list is shuffled before the window moves over it.
    pub shuffle: bool,
    /// Memory limit in GiB; in host memory, for all ranks of the machine together. It is an error
    /// if the cache needs more. By default there is no limit in host memory (several ranks share
    /// 9/10 of the free memory), and on the device it is `device_part` of the free memory.
    pub limit_gib: Option<f64>,
    /// Fraction of the device's free memory that the cache may use with `device = "same"`; the rest
    /// is for the training.
    pub device_part: f64,
}

impl Default for SmartCache {
    fn default() -> Self {
        Self {
            rate: Rate::default(),
            num: None,
            workers: two(),
            device: CachePlace::Host,
            storage: Storage::F32,
            replace_rate: 0.1,
            shuffle: true,
            limit_gib: None,
            device_part: half(),
        }
    }
}

impl SmartCache {
    fn budget(&self) -> Budget {
        Budget { place: self.device, limit: self.limit_gib, part: self.device_part }
    }
}

impl Cache for SmartCache {
    fn dataset(&self, cases: Vec<Item>, steps: Arc<Pipeline>, run: &CacheRun) -> Result<Arc<dyn Dataset>, DataError> {
        if run.whole {
            // A window would omit cases that are to be measured.
            let Self { rate, num, workers, device, storage, limit_gib, device_part, .. } = self.clone();
            return MemoryCache {
                rate,
                num,
                workers,
                device,
                storage,
                limit_gib,
                device_part,
                ..MemoryCache::default()
            }
            .dataset(cases, steps, run);
        }
        let options = SmartCacheOptions {
            replace_rate: self.replace_rate,
            rate: self.rate.part(),
            num: self.num,
            init_workers: self.workers,
            replace_workers: self.workers,
            shuffle: self.shuffle,
            device: self.device.of(&run.device),
            storage: self.storage,
            progress: run.progress,
            limit: self.budget().bytes(run),
            ..SmartCacheOptions::default()
        };
        Ok(Arc::new(SmartCacheDataset::new(cases, steps, options)?))
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
        Some(self.budget().most(run))
    }

    fn moves(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), Fault> {
        self.rate.check()?;
        if self.rate == Rate::Auto {
            return Err(Fault::at("rate", "a moving window needs a fraction, 0 to 1, or num"));
        }
        let rate = self.replace_rate;
        if rate.is_nan() || rate <= 0.0 || rate > 1.0 {
            let message = format!("{rate} is not a fraction; give more than 0 and at most 1, or kind = \"cache\"");
            return Err(Fault::at("replace_rate", message));
        }
        self.budget().check()?;
        check_storage(self.storage, self.device)
    }
}

entry!(dyn Cache => SmartCache, name: "smart", aliases: &["SmartCacheDataset"], example: "rate = 0.5\nreplace_rate = 0.2");
