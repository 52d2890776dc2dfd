//! [`CacheDataset`]: the deterministic part of the pipeline is done once and kept.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use burn::tensor::Device;
use hearth_kernels::host;

use super::{Dataset, Item, check_items, guarded, no_case};
use crate::{DataError, DrawKey, Pipeline, Progress, Sample, Value};

/// What is cached, and where.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Share of the cases that are cached.
    pub rate: f64,
    /// At most this many cases.
    pub num: Option<usize>,
    /// Threads that fill the cache; 0: as many as there are cores.
    pub workers: usize,
    /// Where cached images live; where the pipeline left them if not given.
    pub device: Option<Device>,
    /// How filling is shown.
    pub progress: Progress,
    /// Bytes the cache may take; not given: 9/10 of the memory that is free (for a cache in host memory).
    pub limit: Option<u64>,
}

impl Default for CacheOptions {
    fn default() -> Self {
        CacheOptions { rate: 1.0, num: None, workers: 1, device: None, progress: Progress::None, limit: None }
    }
}

/// Caches the first cases up to the pipeline's first random step; runs the rest at every access.
#[derive(Debug)]
pub struct CacheDataset {
    items: Vec<Item>,
    pipeline: Arc<Pipeline>,
    seed: u64,
    rank: u64,
    cached: Vec<Vec<Sample>>,
}

impl CacheDataset {
    /// Fills the cache. The first case tells how much memory all will take; the figure is shown before the others are filled.
    ///
    /// # Errors
    /// Where a case fails, an option makes no sense, or the cache would not fit (the error says what would).
    pub fn new(
        items: Vec<Item>,
        pipeline: Arc<Pipeline>,
        seed: u64,
        rank: u64,
        options: CacheOptions,
    ) -> Result<Self, DataError> {
        check_items(&items, &pipeline)?;
        if !(0.0..=1.0).contains(&options.rate) {
            return Err(DataError::Option(format!("cache rate {} is not between 0 and 1", options.rate)));
        }
        let share = (items.len() as f64 * options.rate) as usize;
        let count = share.min(options.num.unwrap_or(usize::MAX)).min(items.len());
        let mut dataset = CacheDataset { items, pipeline, seed, rank, cached: Vec::new() };
        if count > 0 {
            dataset.cached = dataset.fill(count, &options)?;
        }
        Ok(dataset)
    }

    /// Number of cases that are cached.
    pub fn cached(&self) -> usize {
        self.cached.len()
    }

    /// Bytes of the cached values.
    pub fn bytes(&self) -> usize {
        self.cached.iter().flatten().map(Sample::bytes).sum()
    }

    fn fill(&self, count: usize, options: &CacheOptions) -> Result<Vec<Vec<Sample>>, DataError> {
        let first = self.prepare(0, options.device.as_ref())?;
        let each = first.iter().map(Sample::bytes).sum::<usize>();
        self.predict(each as u64, count, options)?;
        let bar = options.progress.start("cache", count as u64);
        bar.advance();
        let slots: Vec<OnceLock<Vec<Sample>>> = (0..count).map(|_| OnceLock::new()).collect();
        let _ = slots[0].set(first);
        let next = AtomicUsize::new(1);
        let failed = AtomicBool::new(false);
        let failure: Mutex<Option<(usize, DataError)>> = Mutex::new(None);
        let workers = match options.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        std::thread::scope(|scope| {
            for _ in 0..workers.min(count) {
                scope.spawn(|| {
                    while !failed.load(Ordering::Relaxed) {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(slot) = slots.get(index) else { break };
                        match self.prepare(index, options.device.as_ref()) {
                            Ok(samples) => {
                                let _ = slot.set(samples);
                                bar.advance();
                            }
                            Err(error) => {
                                failed.store(true, Ordering::Relaxed);
                                let mut failure = failure.lock().unwrap_or_else(|p| p.into_inner());
                                // Of several, the first case is told, whoever was quicker.
                                if failure.as_ref().is_none_or(|(other, _)| index < *other) {
                                    *failure = Some((index, error));
                                }
                            }
                        }
                    }
                });
            }
        });
        bar.finish();
        if let Some((_, error)) = failure.into_inner().unwrap_or_else(|p| p.into_inner()) {
            return Err(error);
        }
        Ok(slots.into_iter().map(|slot| slot.into_inner().unwrap_or_default()).collect())
    }

    /// Says how much memory the cache takes, and refuses what would not fit.
    fn predict(&self, each: u64, count: usize, options: &CacheOptions) -> Result<(), DataError> {
        let needed = each.saturating_mul(count as u64);
        let on_host = options.device.as_ref().is_none_or(host::is_host);
        let limit = options.limit.or_else(|| {
            on_host.then(|| {
                let mut system = sysinfo::System::new();
                system.refresh_memory();
                let free = system.cgroup_limits().map_or(u64::MAX, |c| c.free_memory);
                system.available_memory().min(free) / 10 * 9
            })
        });
        options.progress.say(&format!(
            "cache: {count} of {} cases, about {} ({} each)",
            self.items.len(),
            readable(needed),
            readable(each)
        ));
        match limit {
            Some(limit) if needed > limit => {
                let fits = limit.checked_div(each).unwrap_or(0).min(count as u64);
                let rate = fits as f64 / self.items.len() as f64;
                Err(DataError::Cache(format!(
                    "the cache would take about {} for {count} cases ({} each), but only {} may be used.\n  {fits} cases fit: \
                     use a cache rate of {:.2} or cache_num = {fits}, or crop or downsample before the first random step",
                    readable(needed),
                    readable(each),
                    readable(limit),
                    (rate * 100.0).floor() / 100.0
                )))
            }
            _ => Ok(()),
        }
    }

    /// The deterministic part of one case, each tensor with memory of its own.
    fn prepare(&self, index: usize, device: Option<&Device>) -> Result<Vec<Sample>, DataError> {
        let item = &self.items[index];
        guarded(&item.case, || {
            let mut samples = self.pipeline.run_deterministic(item.sample())?;
            for value in samples.iter_mut().flat_map(|s| s.values.values_mut()) {
                if let Value::Image(image) = value {
                    let data = host::compact(image.data.clone());
                    image.data = match device {
                        Some(device) => data.to_device(device),
                        None => data,
                    };
                }
            }
            Ok(samples)
        })
    }
}

/// Bytes in a unit people read.
pub(crate) fn readable(bytes: u64) -> String {
    let bytes = bytes as f64;
    match bytes {
        b if b >= 1073741824.0 => format!("{:.1} GiB", b / 1073741824.0),
        b if b >= 1048576.0 => format!("{:.1} MiB", b / 1048576.0),
        b => format!("{:.1} KiB", b / 1024.0),
    }
}

impl Dataset for CacheDataset {
    fn len(&self) -> usize {
        self.items.len()
    }

    fn case(&self, index: usize) -> &str {
        self.items.get(index).map_or("", |item| &item.case)
    }

    fn get(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError> {
        let item = self.items.get(index).ok_or_else(|| no_case(index, self.items.len()))?;
        let key = DrawKey::new(self.seed, epoch, self.rank);
        guarded(&item.case, || {
            Ok(match self.cached.get(index) {
                // Tensors are shared until a step changes one.
                Some(samples) => self.pipeline.run_random(samples.clone(), key)?,
                None => self.pipeline.run(item.sample(), key)?,
            })
        })
    }
}
