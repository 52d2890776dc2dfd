//! [`DataLoader`]: batches made ahead of time by threads, in order.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use crate::{Batch, DataError, Dataset, DrawKey, collate};

/// How batches are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoaderOptions {
    /// Cases per batch (a case that is cropped several times gives several entries).
    pub batch_size: usize,
    /// A new order every epoch.
    pub shuffle: bool,
    /// Threads; 0: batches are made by the caller when asked for.
    pub workers: usize,
    /// Batches that may wait, ready or in the making.
    pub buffer: usize,
    /// Seed of the order.
    pub seed: u64,
    /// Leave out a last batch that is not full.
    pub drop_last: bool,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        LoaderOptions { batch_size: 1, shuffle: false, workers: 0, buffer: 2, seed: 0, drop_last: false }
    }
}

/// Batches of a data set. The order depends on seed and epoch only: neither the number of threads nor their timing changes a batch.
#[derive(Clone)]
pub struct DataLoader {
    dataset: Arc<dyn Dataset>,
    options: LoaderOptions,
}

impl std::fmt::Debug for DataLoader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataLoader").field("cases", &self.dataset.len()).field("options", &self.options).finish()
    }
}

impl DataLoader {
    /// Batches of this data set.
    ///
    /// # Errors
    /// Where the batch size is 0.
    pub fn new(dataset: Arc<dyn Dataset>, options: LoaderOptions) -> Result<Self, DataError> {
        if options.batch_size == 0 {
            return Err(DataError::Option("batch_size is 0".to_owned()));
        }
        Ok(DataLoader { dataset, options })
    }

    /// Number of batches in an epoch.
    pub fn len(&self) -> usize {
        let (n, b) = (self.dataset.len(), self.options.batch_size);
        if self.options.drop_last { n / b } else { n.div_ceil(b) }
    }

    /// Whether an epoch has no batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The data set.
    pub fn dataset(&self) -> &Arc<dyn Dataset> {
        &self.dataset
    }

    /// The batches of an epoch, without the first `skip` (which are not made): what a resumed run still has to do.
    ///
    /// After an error the iterator goes on with the next batch. Dropping it stops and joins its threads.
    pub fn epoch(&self, epoch: u64, skip: u64) -> Batches {
        let cases = self.dataset.len();
        let order = if self.options.shuffle {
            DrawKey::new(self.options.seed, epoch, 0).draw("order of cases", 0, 0).permutation(cases)
        } else {
            (0..cases).collect()
        };
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let plan: Vec<Vec<usize>> =
            order.chunks(self.options.batch_size).take(self.len()).skip(skip).map(<[usize]>::to_vec).collect();
        let work = Arc::new(Work { dataset: self.dataset.clone(), plan, epoch });
        if self.options.workers == 0 {
            return Batches { work, next: 0, pool: None };
        }
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let buffer = self.options.buffer.max(1);
        let threads = (0..self.options.workers.min(work.plan.len()))
            .map(|_| {
                let (work, shared) = (work.clone(), shared.clone());
                std::thread::spawn(move || produce(&work, &shared, buffer))
            })
            .collect();
        Batches { work, next: 0, pool: Some(Pool { shared, threads }) }
    }
}

/// A [`DataLoader`] with at least one thread, so that the next batch is made while the current one is used (MONAI's name).
#[derive(Clone, Debug)]
pub struct ThreadDataLoader(DataLoader);

impl ThreadDataLoader {
    /// Batches of this data set.
    ///
    /// # Errors
    /// Where the batch size is 0.
    pub fn new(dataset: Arc<dyn Dataset>, options: LoaderOptions) -> Result<Self, DataError> {
        let workers = options.workers.max(1);
        Ok(ThreadDataLoader(DataLoader::new(dataset, LoaderOptions { workers, ..options })?))
    }
}

impl From<ThreadDataLoader> for DataLoader {
    fn from(loader: ThreadDataLoader) -> Self {
        loader.0
    }
}

impl std::ops::Deref for ThreadDataLoader {
    type Target = DataLoader;

    fn deref(&self) -> &DataLoader {
        &self.0
    }
}

struct Work {
    dataset: Arc<dyn Dataset>,
    plan: Vec<Vec<usize>>,
    epoch: u64,
}

impl Work {
    fn make(&self, batch: usize) -> Result<Batch, DataError> {
        let indices = &self.plan[batch];
        let span = tracing::debug_span!("batch", epoch = self.epoch, batch);
        let _entered = span.enter();
        let mut samples = Vec::with_capacity(indices.len());
        for index in indices {
            samples.extend(self.dataset.get(*index, self.epoch)?);
        }
        // A data set of somebody else's may panic, and so may collation on a device that is gone.
        catch_unwind(AssertUnwindSafe(|| collate(samples))).unwrap_or_else(|_| {
            let cases: Vec<&str> = indices.iter().map(|i| self.dataset.case(*i)).collect();
            Err(DataError::Panic { case: cases.join(", "), what: "collating the batch panicked".to_owned() })
        })
    }
}

#[derive(Default)]
struct State {
    /// The next batch nobody has begun.
    begun: usize,
    /// The next batch the consumer takes.
    taken: usize,
    ready: BTreeMap<usize, Result<Batch, DataError>>,
    stop: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn produce(work: &Work, shared: &Shared, buffer: usize) {
    loop {
        let batch = {
            let mut state = shared.lock();
            loop {
                if state.stop || state.begun >= work.plan.len() {
                    return;
                }
                if state.begun < state.taken + buffer {
                    break;
                }
                state = shared.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
            state.begun += 1;
            state.begun - 1
        };
        let made = catch_unwind(AssertUnwindSafe(|| work.make(batch))).unwrap_or_else(|_| {
            let cases: Vec<&str> = work.plan[batch].iter().map(|i| work.dataset.case(*i)).collect();
            Err(DataError::Panic { case: cases.join(", "), what: "making the batch panicked".to_owned() })
        });
        shared.lock().ready.insert(batch, made);
        shared.changed.notify_all();
    }
}

struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// The batches of one epoch, in order.
pub struct Batches {
    work: Arc<Work>,
    next: usize,
    pool: Option<Pool>,
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("next", &self.next).field("of", &self.work.plan.len()).finish()
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.work.plan.len() {
            return None;
        }
        let index = self.next;
        self.next += 1;
        let Some(pool) = &self.pool else { return Some(self.work.make(index)) };
        let mut state = pool.shared.lock();
        loop {
            if let Some(batch) = state.ready.remove(&index) {
                state.taken = index + 1;
                drop(state);
                pool.shared.changed.notify_all();
                return Some(batch);
            }
            state = pool.shared.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.work.plan.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Batches {}

impl Drop for Batches {
    fn drop(&mut self) {
        let Some(pool) = self.pool.take() else { return };
        pool.shared.lock().stop = true;
        pool.shared.changed.notify_all();
        for thread in pool.threads {
            // A thread never panics: what it runs is caught.
            let _ = thread.join();
        }
    }
}
