//! [`SmartCacheDataset`]: a window over the cases that moves on each epoch.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;

use burn::tensor::Device;
use derive_setters::Setters;

use super::cache::{count, readable};
use super::cases::{Cases, for_each, threads};
use super::kept::{Kept, Slot};
use super::{Dataset, Item, Storage, no_case};
use crate::numpy::shuffled_indices;
use crate::{DataError, Pipeline, Progress, Sample};

/// How large the window is, and how far it moves.
#[derive(Clone, Debug, Setters)]
#[setters(strip_option)]
pub struct SmartCacheOptions {
    /// Share of the cached cases that is replaced each epoch, above 0.
    pub replace_rate: f64,
    /// Share of the cases that are cached at a time.
    pub rate: f64,
    /// At most this many cases at a time.
    pub num: Option<usize>,
    /// Threads that fill the first window; 0: as many as there are cores.
    pub init_workers: usize,
    /// Threads that prepare the next window meanwhile; 0: as many as there are cores.
    pub replace_workers: usize,
    /// Shuffle the cases once, as numpy's `RandomState(shuffle_seed)` does.
    pub shuffle: bool,
    /// Seed of the shuffle.
    pub shuffle_seed: u32,
    /// Where cached images live; where the pipeline left them if not given.
    pub device: Option<Device>,
    /// In which type values are kept.
    pub storage: Storage,
    /// How the first filling is shown.
    pub progress: Progress,
    /// Bytes that the window and what prepares the next one may take; where it would be more, every
    /// case is an error that says so. Not given: no limit.
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

/// Keeps a part of the cases in memory, an epoch's worth; each epoch the oldest of them make room
/// for the next ones of the list, which threads have prepared during the epoch before.
///
/// With N cases, C of them cached and R replaced, epoch e (the first is `first_epoch`) has the
/// cases `(e - first) * R + i` modulo N for i from 0 to C - 1: MONAI's sequence. It is a function
/// of the epoch, so a run that is resumed, or a data set that is made again, goes on where it was,
/// and no case comes twice. For the time of an epoch up to C + R cases are in memory.
///
/// A loader tells the epoch by [`Dataset::begin_epoch`]; there is nothing to start or to stop.
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
    /// Why nothing is kept: it would be more than the limit.
    refused: OnceLock<String>,
}

#[derive(Debug, Default)]
struct State {
    epoch: Option<u64>,
    /// By case: those of this window and the next.
    kept: BTreeMap<usize, Arc<Slot>>,
    /// What the next window needs.
    wanted: VecDeque<usize>,
    stop: bool,
}

impl SmartCacheDataset {
    /// Cases and what to do with them. The cache is filled when the first epoch begins.
    ///
    /// # Errors
    /// Where an option makes no sense, or a case lacks a file that the pipeline loads.
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
            return Err(DataError::Option(format!("a replace_rate of {rate} makes no sense: {advice}")));
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

    /// The cases of an epoch, by their places in the list that was given.
    pub fn window(&self, epoch: u64) -> Vec<usize> {
        self.shared.window(epoch)
    }

    /// Number of cases in memory now.
    pub fn cached(&self) -> usize {
        self.shared.lock().kept.values().filter(|slot| slot.get().is_some()).count()
    }

    fn start_threads(&self) {
        let mut running = self.threads.lock().unwrap_or_else(|p| p.into_inner());
        if running.is_empty() && self.shared.replaced > 0 {
            running.extend((0..threads(self.shared.options.replace_workers)).map(|_| {
                let shared = self.shared.clone();
                std::thread::spawn(move || shared.replace())
            }));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The case at a place of an epoch.
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

    /// Refuses to keep anything where a case of this size says that the window would not fit.
    fn check_room(&self, each: u64) {
        let Some(limit) = self.options.limit else { return };
        let count = (self.cached + self.replaced) as u64;
        if each.saturating_mul(count) > limit {
            let (most, [needed, each, limit]) = (limit / each.max(1), [each * count, each, limit].map(readable));
            let why = format!(
                "the cache would take about {needed} for {count} cases ({each} each, those of the next window with them), but \
                 only {limit} may be used.\n  {most} cases fit: use a lower rate or num, or device = \"host\""
            );
            // Only the first case looks.
            let _ = self.refused.set(why);
        }
    }

    /// Moves the window to an epoch and fills what it lacks.
    fn move_to(&self, epoch: u64) {
        let (window, next) = (self.window(epoch), self.window(epoch + 1));
        let mut state = self.lock();
        if state.epoch == Some(epoch) {
            return;
        }
        let first = state.epoch.replace(epoch).is_none();
        let mut before = std::mem::take(&mut state.kept);
        // Windows overlap: a case of both must not lose what is kept of it.
        let both = window.iter().chain(next.iter().filter(|case| !window.contains(case)));
        state.kept = both.map(|case| (*case, before.remove(case).unwrap_or_default())).collect();
        let slots: Vec<Arc<Slot>> = window.iter().map(|case| state.kept[case].clone()).collect();
        state.wanted = next.into_iter().filter(|case| state.kept[case].get().is_none()).collect();
        state.wanted.retain(|case| !window.contains(case));
        drop(state);
        if first && let (Some(slot), Some(case)) = (slots.first(), window.first()) {
            // A case that fails is told when it is asked for.
            if let Ok(Some(kept)) = slot.get_or_make(|| self.make(*case).map(Some)) {
                self.check_room(kept.bytes() as u64);
            }
        }
        let progress = if first { self.options.progress } else { Progress::None };
        let bar = progress.start("cache", slots.len() as u64);
        // A case that fails is told when it is asked for.
        let _ = for_each(0..slots.len(), self.options.init_workers, &bar, |place| {
            let _ = slots[place].get_or_make(|| self.make(window[place]).map(Some));
            Ok(true)
        });
        bar.finish();
        self.changed.notify_all();
    }

    /// What a background thread does: the cases of the next window.
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
            // A case that fails is tried again, and told, when it is asked for.
            let _ = slot.get_or_make(|| self.make(case).map(Some));
        }
    }
}

impl Dataset for SmartCacheDataset {
    /// The cases of an epoch, not of the list.
    fn len(&self) -> usize {
        self.shared.cached
    }

    /// The case at a place of the epoch that was begun last.
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
        // Out of the window where somebody still works at an older epoch.
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
            // What it runs is caught.
            let _ = thread.join();
        }
    }
}
