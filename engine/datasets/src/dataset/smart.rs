//! [`SmartCacheDataset`]: a window over the cases that moves each epoch.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;

use burn::tensor::Device;
use derive_setters::Setters;
use hearth_transforms::{Pipeline, Sample};

use super::cache::{count, readable};
use super::cases::{Cases, for_each, threads};
use super::in_memory::{Kept, Slot};
use super::{Dataset, Item, Storage, no_case};
use crate::numpy::shuffled_indices;
use crate::{DataError, Progress};

/// The size of the window, and how far it moves.
#[derive(Clone, Debug, Setters)]
#[setters(strip_option)]
pub struct SmartCacheOptions {
    /// Fraction of the cached cases that is replaced each epoch, above 0.
    pub replace_rate: f64,
    /// Fraction of the cases that are cached at a time.
    pub rate: f64,
    /// Maximum number of cases at a time.
    pub num: Option<usize>,
    /// Number of threads that fill the first window; 0 means the number of cores.
    pub init_workers: usize,
    /// Number of threads that prepare the next window in the background; 0 means the number of
    /// cores.
    pub replace_workers: usize,
    /// Whether to shuffle the cases once, by numpy's `RandomState(shuffle_seed)`.
    pub shuffle: bool,
    /// Seed of the shuffle.
    pub shuffle_seed: u32,
    /// Device of cached images; by default the one the pipeline left them on.
    pub device: Option<Device>,
    /// Type of stored values.
    pub storage: Storage,
    /// How the progress of the first filling is shown.
    pub progress: Progress,
    /// Maximum number of bytes of the window and of the cases prepared for the next one; if they
    /// need more, every case returns an error that states it. By default there is no limit.
    pub limit: Option<u64>,
    /// Number of the epoch whose window is the first one.
    pub first_epoch: u64,
}

impl Default for SmartCacheOptions {
    fn default() -> Self {
        SmartCacheOptions {
            replace_rate: 0.1,
            rate: 1.0,
            num: None,
            init_workers: 1,
            replace_workers: 1,
            shuffle: true,
            shuffle_seed: 0,
            device: None,
            storage: Storage::F32,
            progress: Progress::None,
            limit: None,
            first_epoch: 1,
        }
    }
}

/// Keeps a window of the cases in memory, one epoch's worth. Each epoch the next cases of the list,
/// which threads prepared during the previous epoch, replace the oldest ones.
///
/// With N cases, C of them cached and R replaced, epoch e (the first is `first_epoch`) has the
/// cases `(e - first) * R + i` modulo N for i from 0 to C - 1: MONAI's sequence. It is a function
/// of the epoch, so a resumed run or a rebuilt data set continues with the same sequence, and no
/// case is repeated. During an epoch up to C + R cases are in memory.
///
/// A loader sets the epoch by [`Dataset::begin_epoch`]; nothing needs to be started or stopped.
#[derive(Debug)]
pub struct SmartCacheDataset {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    cases: Cases,
    options: SmartCacheOptions,
    /// The shuffled list.
    order: Vec<usize>,
    cached: usize,
    replaced: usize,
    state: Mutex<State>,
    changed: Condvar,
    /// The error if the window would exceed the limit, so that nothing is kept.
    refused: OnceLock<String>,
}

#[derive(Debug, Default)]
struct State {
    epoch: Option<u64>,
    /// Kept values by case: those of this window and the next.
    kept: BTreeMap<usize, Arc<Slot>>,
    /// The cases that the next window needs.
    wanted: VecDeque<usize>,
    stop: bool,
}

impl SmartCacheDataset {
    /// Creates a data set of cases and a pipeline. The cache is filled when the first epoch starts.
    ///
    /// # Errors
    /// If an option is invalid, or a case lacks a file that the pipeline loads.
    pub fn new(
        items: Vec<Item>,
        pipeline: impl Into<Arc<Pipeline>>,
        options: SmartCacheOptions,
    ) -> Result<Self, DataError> {
        let cases = Cases::new(items, pipeline)?;
        cases.warn_if_all_is_random();
        let rate = options.replace_rate;
        if !(rate > 0.0 && rate <= 1.0) {
            let advice = "give more than 0 and at most 1, or use CacheDataset, which replaces nothing";
            return Err(DataError::Option(format!("a replace_rate of {rate} is not valid: {advice}")));
        }
        let total = cases.len();
        let cached = count(total, options.rate, options.num)?;
        if cached == 0 && total > 0 {
            return Err(DataError::Option(format!("none of {total} cases would be cached: raise rate or num")));
        }
        if cached >= total {
            tracing::warn!("all {total} cases are cached, so none is replaced: a plain cache does the same");
        }
        let replaced = ((cached as f64 * rate).ceil() as usize).min(total - cached);
        let order = if options.shuffle { shuffled_indices(total, options.shuffle_seed) } else { (0..total).collect() };
        let (state, changed) = (Mutex::default(), Condvar::new());
        let refused = OnceLock::new();
        let shared = Arc::new(Shared { cases, options, order, cached, replaced, state, changed, refused });
        Ok(SmartCacheDataset { shared, threads: Mutex::default() })
    }

    /// The cases of an epoch, as indices into the given list.
    pub fn window(&self, epoch: u64) -> Vec<usize> {
        self.shared.window(epoch)
    }

    /// The number of cases currently in memory.
    pub fn cached(&self) -> usize {
        self.shared.lock().kept.values().filter(|slot| slot.get().is_some()).count()
    }

    fn start_threads(&self) {
        let mut running = self.threads.lock().unwrap_or_else(|p| p.into_inner());
        if running.is_empty() && self.shared.replaced > 0 {
            running.extend((0..threads(self.shared.options.replace_workers)).map_while(|_| {
                let shared = self.shared.clone();
                // If the system starts no more threads, the existing ones do the work.
                std::thread::Builder::new().spawn(move || shared.replace()).ok()
            }));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The case at an index of an epoch.
    fn case(&self, epoch: u64, place: usize) -> usize {
        let (moved, total) = (epoch.saturating_sub(self.options.first_epoch), self.order.len() as u128);
        let at = (u128::from(moved) * self.replaced as u128 + place as u128) % total.max(1);
        self.order[at as usize]
    }

    fn window(&self, epoch: u64) -> Vec<usize> {
        (0..self.cached).map(|place| self.case(epoch, place)).collect()
    }

    fn make(&self, case: usize) -> Result<Kept, DataError> {
        if let Some(why) = self.refused.get() {
            return Err(DataError::Cache(why.clone()));
        }
        Kept::new(self.cases.fixed(case)?, self.options.storage, self.options.device.as_ref())
    }

    /// Keeps nothing if the size of this case shows that the window would exceed the limit.
    fn check_room(&self, each: u64) {
        let Some(limit) = self.options.limit else { return };
        let count = (self.cached + self.replaced) as u64;
        if each.saturating_mul(count) > limit {
            let (most, [needed, each, limit]) = (limit / each.max(1), [each * count, each, limit].map(readable));
            let why = format!(
                "the cache would take about {needed} for {count} cases ({each} each, those of the next window with them), but \
                 only {limit} may be used.\n  {most} cases fit: use a lower rate or num, or device = \"host\""
            );
            // Only the first case is checked.
            let _ = self.refused.set(why);
        }
    }

    /// Moves the window to an epoch and fills missing cases.
    fn move_to(&self, epoch: u64) {
        let (window, next) = (self.window(epoch), self.window(epoch + 1));
        let mut state = self.lock();
        if state.epoch == Some(epoch) {
            return;
        }
        let first = state.epoch.replace(epoch).is_none();
        let mut before = std::mem::take(&mut state.kept);
        // Windows overlap: a case in both must keep its cached value.
        let both = window.iter().chain(next.iter().filter(|case| !window.contains(case)));
        state.kept = both.map(|case| (*case, before.remove(case).unwrap_or_default())).collect();
        let slots: Vec<Arc<Slot>> = window.iter().map(|case| state.kept[case].clone()).collect();
        state.wanted = next.into_iter().filter(|case| state.kept[case].get().is_none()).collect();
        state.wanted.retain(|case| !window.contains(case));
        drop(state);
        if first && let (Some(slot), Some(case)) = (slots.first(), window.first()) {
            // A case that fails is reported when it is requested.
            if let Ok(Some(kept)) = slot.get_or_make(|| self.make(*case).map(Some)) {
                self.check_room(kept.bytes() as u64);
            }
        }
        let progress = if first { self.options.progress } else { Progress::None };
        let bar = progress.start("cache", slots.len() as u64);
        // A failed case is reported when it is requested.
        let _ = for_each(0..slots.len(), self.options.init_workers, &bar, |place| {
            let _ = slots[place].get_or_make(|| self.make(window[place]).map(Some));
            Ok(true)
        });
        bar.finish();
        self.changed.notify_all();
    }

    /// The work of a background thread: the cases of the next window.
    fn replace(&self) {
        loop {
            let mut state = self.lock();
            let (case, slot) = loop {
                if state.stop {
                    return;
                }
                if let Some(case) = state.wanted.pop_front() {
                    match state.kept.get(&case) {
                        Some(slot) => break (case, slot.clone()),
                        None => continue,
                    }
                }
                state = self.changed.wait(state).unwrap_or_else(|p| p.into_inner());
            };
            drop(state);
            // A failed case is tried again, and reported, when it is requested.
            let _ = slot.get_or_make(|| self.make(case).map(Some));
        }
    }
}

impl Dataset for SmartCacheDataset {
    /// The cases of an epoch, not of the list.
    fn len(&self) -> usize {
        self.shared.cached
    }

    /// Returns the case at an index of the epoch that was started last.
    fn case(&self, index: usize) -> &str {
        let epoch = self.shared.lock().epoch.unwrap_or(self.shared.options.first_epoch);
        if index < self.shared.cached { self.shared.cases.name(self.shared.case(epoch, index)) } else { "" }
    }

    fn begin_epoch(&self, epoch: u64) {
        self.shared.move_to(epoch);
        self.start_threads();
    }

    fn get(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError> {
        let shared = &self.shared;
        if index >= shared.cached {
            return Err(no_case(index, shared.cached));
        }
        if shared.lock().epoch.is_none_or(|current| epoch > current) {
            self.begin_epoch(epoch);
        }
        let case = shared.case(epoch, index);
        // An index is outside the window if a caller still reads an older epoch.
        let slot = shared.lock().kept.get(&case).cloned().unwrap_or_default();
        if let Some(why) = shared.refused.get() {
            return Err(DataError::Cache(why.clone()));
        }
        let kept = slot.get_or_make(|| shared.make(case).map(Some))?;
        let samples = kept.map(Kept::samples).unwrap_or_default();
        shared.cases.rest(case, epoch, samples)
    }
}

impl Drop for SmartCacheDataset {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        for thread in self.threads.get_mut().unwrap_or_else(|p| p.into_inner()).drain(..) {
            // Panics of its work are caught.
            let _ = thread.join();
        }
    }
}
