//! [`CacheDataset`]: the deterministic part of the pipeline runs once, and its result is kept in
//! memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use burn::tensor::Device;
use derive_setters::Setters;
use hearth_kernels::host;
use hearth_transforms::{Pipeline, Sample};

use super::cases::{Cases, for_each, guarded};
use super::identity::{Identity, KeyMaker, Stamp};
use super::in_memory::{CachePool, Kept, Slot, no_exact_on_device};
use super::{Dataset, Item, Storage, epoch_again};
use crate::{DataError, Progress};

/// Options of a cache in memory.
#[derive(Clone, Debug, Setters)]
#[setters(strip_option)]
pub struct CacheOptions {
    /// Fraction of the cases that are cached.
    pub rate: f64,
    /// Maximum number of cached cases.
    pub num: Option<usize>,
    /// Whether to cache as many of these as fit into `limit`; the others run the whole pipeline at
    /// each access. Otherwise a cache that does not fit is an error.
    pub auto: bool,
    /// Whether to fill at the first access of each case instead of in advance.
    pub runtime: bool,
    /// Number of threads that fill the cache; 0 means the number of cores.
    pub workers: usize,
    /// Device of cached images; by default the one the pipeline left them on.
    pub device: Option<Device>,
    /// Type of stored values.
    pub storage: Storage,
    /// How cases with the same content are recognized, which are kept once; with `None` each case
    /// is kept separately.
    pub identity: Option<Identity>,
    /// Pool that shares cases with other data sets.
    pub pool: CachePool,
    /// How the progress of filling is shown.
    pub progress: Progress,
    /// Maximum number of bytes; by default 9/10 of the free memory (for a cache in host memory).
    pub limit: Option<u64>,
    /// Bytes of host memory that the training needs in addition to the cache, which `auto` leaves
    /// free.
    pub beside: u64,
}

impl Default for CacheOptions {
    fn default() -> Self {
        CacheOptions {
            rate: 1.0,
            num: None,
            auto: false,
            runtime: false,
            workers: 1,
            device: None,
            storage: Storage::F32,
            identity: Some(Identity::Content),
            pool: CachePool::default(),
            progress: Progress::None,
            limit: None,
            beside: 0,
        }
    }
}

/// Caches the first cases up to the pipeline's first random step, and runs the rest at every
/// access. MONAI's `CacheDataset`; [`Items::cached`](crate::Items::cached) makes one of a list of
/// cases, as in the example of the [crate](crate).
///
/// Neither caching nor sharing changes a sample (except for [`Storage::F16`], which rounds).
#[derive(Debug)]
pub struct CacheDataset {
    cases: Cases,
    options: CacheOptions,
    keys: Option<KeyMaker>,
    /// One slot per case that may be cached; set when the case is first needed.
    slots: Vec<OnceLock<Arc<Slot>>>,
    /// Maximum number of bytes.
    limit: u64,
    /// Bytes still available.
    left: AtomicU64,
    /// Bytes of memory that stay free when cases are added, because other work needs them.
    spare: AtomicU64,
}

impl CacheDataset {
    /// Creates the data set and fills the cache, unless it is filled at run time. The expected
    /// memory is determined from the first case and shown before the others are filled.
    ///
    /// # Errors
    /// If a case fails, an option is invalid, or the cache would not fit (the error states what
    /// would).
    pub fn new(items: Vec<Item>, pipeline: impl Into<Arc<Pipeline>>, options: CacheOptions) -> Result<Self, DataError> {
        let cases = Cases::new(items, pipeline)?;
        cases.warn_if_all_is_random();
        let count = count(cases.len(), options.rate, options.num)?;
        let on_host = options.device.as_ref().is_none_or(host::is_host);
        if options.storage == Storage::Exact && !on_host {
            return Err(no_exact_on_device());
        }
        // A limit above the existing memory has no effect.
        let free = on_host.then(free_memory);
        let limit = options.limit.map(|limit| limit.min(free.unwrap_or(u64::MAX))).or(free);
        if options.auto && limit.is_none() {
            let advice = "set a limit in bytes, or a rate";
            return Err(DataError::Option(format!("the free memory of the device is not known: {advice}")));
        }
        let keys = options.identity.map(|identity| {
            let (steps, device) = (cases.describe_fixed(), &options.device);
            KeyMaker::new(&format!("{steps} {:?} {device:?}", options.storage), identity)
        });
        let slots = (0..count).map(|_| OnceLock::new()).collect();
        let limit = limit.unwrap_or(u64::MAX);
        let beside = if options.auto && on_host { options.beside } else { 0 };
        let (left, spare) = (AtomicU64::new(limit), AtomicU64::new(beside));
        let dataset = CacheDataset { cases, options, keys, slots, limit, left, spare };
        if !dataset.options.runtime {
            dataset.fill()?;
        }
        Ok(dataset)
    }

    /// The number of cases currently cached.
    pub fn cached(&self) -> usize {
        self.kept().count()
    }

    /// Whether a case is currently cached.
    pub fn is_cached(&self, index: usize) -> bool {
        self.slots.get(index).and_then(|slot| slot.get()?.get()).is_some()
    }

    /// The number of bytes of the cached values; shared ones count once.
    pub fn bytes(&self) -> usize {
        let mut kept: Vec<&Kept> = self.kept().collect();
        kept.sort_by_key(|k| std::ptr::from_ref(*k));
        kept.dedup_by_key(|k| std::ptr::from_ref(*k));
        kept.iter().map(|k| k.bytes()).sum()
    }

    fn kept(&self) -> impl Iterator<Item = &Kept> {
        self.slots.iter().filter_map(|slot| slot.get()?.get())
    }

    fn fill(&self) -> Result<(), DataError> {
        if self.slots.is_empty() {
            return Ok(());
        }
        let (before, peak) = (hearth_machine::resident(), hearth_machine::peak_resident());
        let first = self.keep(0)?;
        let Some(first) = first else {
            let why = match self.spare.load(Ordering::Relaxed) {
                0 => format!("{} cannot hold a case", readable(self.limit)),
                beside => format!("no case fits in addition to the {} that the training needs", readable(beside)),
            };
            self.options.progress.say(&format!("cache: {why}, so all are computed at each access"));
            return Ok(());
        };
        if self.options.auto && self.on_host() {
            self.leave_spare(first.bytes() as u64, before.zip(peak));
        }
        self.predict(first.bytes() as u64)?;
        let bar = self.options.progress.start("cache", self.slots.len() as u64);
        bar.advance();
        let full = for_each(1..self.slots.len(), self.options.workers, &bar, |index| Ok(self.keep(index)?.is_some()));
        bar.finish();
        full
    }

    /// Reserves memory when cases are added: as much as preparing the first case took, for each
    /// thread that prepares cases and once for the training, plus what the steps of the training
    /// need. `before` is the memory of the process before that case, and its earlier peak.
    ///
    /// The limit of a cache that keeps what fits is a fraction of the free memory; if that is
    /// little, a few cases in preparation need more than the rest.
    fn leave_spare(&self, bytes: u64, before: Option<(u64, u64)>) {
        let now = hearth_machine::peak_resident();
        let seen = before.zip(now).filter(|((_, peak), now)| now > peak).map(|((had, _), now)| now.saturating_sub(had));
        // If the process had a higher peak before, the memory of this case is unknown: assume at
        // least its input and output.
        let one = seen.unwrap_or(bytes.saturating_mul(2));
        let threads = match self.options.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        };
        let preparing = one.saturating_mul(threads as u64 + 1);
        self.spare.store(preparing.saturating_add(self.options.beside), Ordering::Relaxed);
    }

    /// Whether a cache that keeps what fits is full.
    fn is_full(&self) -> bool {
        let spare = self.spare.load(Ordering::Relaxed);
        self.left.load(Ordering::Relaxed) == 0 || (spare > 0 && hearth_machine::Allowance::now().free < spare)
    }

    /// Returns the cached case; `None` if there is no space for it.
    fn keep(&self, index: usize) -> Result<Option<&Kept>, DataError> {
        let Some(place) = self.slots.get(index) else { return Ok(None) };
        let slot = match place.get() {
            Some(slot) => slot,
            None => {
                let slot = self.slot(index)?;
                place.get_or_init(|| slot)
            }
        };
        slot.get_or_make(|| {
            if self.options.auto && self.is_full() {
                // No further case is tried.
                self.left.store(0, Ordering::Relaxed);
                return Ok(None);
            }
            let samples = self.cases.fixed(index)?;
            // A device without memory for the case may panic.
            let kept = guarded(self.cases.name(index), || {
                Kept::new(samples, self.options.storage, self.options.device.as_ref())
            })?;
            let bytes = kept.bytes() as u64;
            let room =
                self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok();
            if !room && self.options.auto {
                self.left.store(0, Ordering::Relaxed);
                return Ok(None);
            }
            Ok(Some(kept))
        })
    }

    fn on_host(&self) -> bool {
        self.options.device.as_ref().is_none_or(host::is_host)
    }

    fn slot(&self, index: usize) -> Result<Arc<Slot>, DataError> {
        let Some(keys) = &self.keys else { return Ok(Arc::default()) };
        let item = self.cases.item(index)?;
        let key = Stamp::of(item).and_then(|stamp| keys.key(item, &stamp));
        // The step that needs a file reports that it cannot be read.
        Ok(key.map_or_else(|_| Arc::default(), |key| self.options.pool.slot(key)))
    }

    /// Reports the expected memory of the cache, and rejects a cache that would not fit.
    fn predict(&self, each: u64) -> Result<(), DataError> {
        let (count, all) = (self.slots.len() as u64, self.cases.len());
        let needed = each.saturating_mul(count);
        // One case is already kept.
        let may = match self.spare.load(Ordering::Relaxed) {
            0 => self.limit,
            spare => self.limit.min(hearth_machine::Allowance::now().free.saturating_sub(spare).saturating_add(each)),
        };
        let fits = may.checked_div(each).unwrap_or(u64::MAX).min(count);
        let told = if self.options.auto { fits } else { count };
        self.options.progress.say(&format!(
            "cache: {told} of {all} cases, about {} ({} each)",
            readable(each.saturating_mul(told)),
            readable(each)
        ));
        if self.options.auto || fits == count {
            return Ok(());
        }
        Err(DataError::Cache(format!(
            "the cache would take about {} for {count} cases ({} each), but only {} may be used.\n  {fits} cases fit: \
             use a cache rate of {:.2} or cache_num = {fits}, let it take as many as fit (auto), {}or crop or downsample \
             before the first random step",
            readable(needed),
            readable(each),
            readable(self.limit),
            (fits as f64 / all as f64 * 100.0).floor() / 100.0,
            if self.on_host() { "" } else { "keep it in host memory (device = \"host\"), " }
        )))
    }
}

/// The number of cases for a fraction and a maximum.
pub(super) fn count(cases: usize, rate: f64, num: Option<usize>) -> Result<usize, DataError> {
    if !(0.0..=1.0).contains(&rate) {
        return Err(DataError::Option(format!("cache rate {rate} is not between 0 and 1")));
    }
    Ok(((cases as f64 * rate) as usize).min(num.unwrap_or(usize::MAX)).min(cases))
}

/// The host memory that a cache may use: most of what this process may still use.
pub(crate) fn free_memory() -> u64 {
    hearth_machine::Allowance::now().free / 10 * 9
}

/// Formats bytes in a readable unit.
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
        self.cases.len()
    }

    fn case(&self, index: usize) -> &str {
        self.cases.name(index)
    }

    fn get(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError> {
        let kept = if self.options.runtime {
            self.keep(index)?
        } else {
            self.slots.get(index).and_then(|slot| slot.get()?.get())
        };
        match kept {
            Some(kept) => self.cases.rest(index, epoch, kept.samples()),
            None => self.cases.whole(index, epoch),
        }
    }

    fn get_again(&self, index: usize, epoch: u64, before: u64) -> Result<Vec<Sample>, DataError> {
        self.get(index, epoch_again(epoch, before))
    }
}
