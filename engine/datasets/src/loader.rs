//! [`DataLoader`]: batches prepared in advance by threads, in order.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use burn::tensor::Device;
use derive_setters::Setters;
use hearth_transforms::{Pipeline, Sample};

use crate::collate::{Collate, collate_with};
use crate::dataset::words_of;
use crate::sampler::{Sampler, Turn, shuffled, turns};
use crate::workers::{Pool, Run};
use crate::{Batch, DataError, Dataset, transform_batch};

/// Options of a loader.
#[derive(Clone, Debug, PartialEq, Setters)]
#[setters(strip_option)]
pub struct LoaderOptions {
    /// Number of cases per batch (a case that is cropped several times has several entries).
    pub batch_size: usize,
    /// Whether each epoch has a new order.
    pub shuffle: bool,
    /// Number of threads, which live as long as the loader; with 0 the caller's thread prepares
    /// batches on demand.
    pub workers: usize,
    /// Maximum number of batches that are ready or being prepared.
    pub buffer: usize,
    /// Seed of the order.
    pub seed: u64,
    /// Whether to drop an incomplete last batch.
    pub drop_last: bool,
    /// Drop a last batch of a single case, where batches have more: batch norms cannot learn from it.
    pub drop_single: bool,
    /// How often each batch is repeated: for data that is slower than the training.
    pub repeats: usize,
    /// Device that batches are moved to, on the thread that prepares them.
    pub device: Option<Device>,
    /// How samples are collated into a batch.
    pub collate: Collate,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        LoaderOptions {
            batch_size: 1,
            shuffle: false,
            workers: 0,
            buffer: 2,
            seed: 0,
            drop_last: false,
            drop_single: false,
            repeats: 1,
            device: None,
            collate: Collate::List,
        }
    }
}

impl LoaderOptions {
    /// The number of batches of an epoch with this number of cases, each counted once.
    pub fn batches(&self, cases: usize) -> usize {
        let size = self.batch_size;
        let drops = self.drop_last || (self.drop_single && size > 1 && cases % size == 1);
        if drops { cases / size } else { cases.div_ceil(size) }
    }
}

/// Loads batches of a data set. The order depends only on seed and epoch: neither the number of
/// threads nor their timing changes a batch. MONAI's `DataLoader`; the [crate](crate) has an example.
#[derive(Clone)]
pub struct DataLoader {
    dataset: Arc<dyn Dataset>,
    options: LoaderOptions,
    sampler: Option<Arc<dyn Sampler>>,
    batch: Option<Arc<Pipeline>>,
    pool: Arc<OnceLock<Arc<Pool>>>,
}

impl std::fmt::Debug for DataLoader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataLoader").field("cases", &self.dataset.len()).field("options", &self.options).finish()
    }
}

impl DataLoader {
    /// Creates a loader of this data set.
    ///
    /// # Errors
    /// If the batch size or the number of repeats is 0.
    pub fn new(dataset: impl Dataset + 'static, options: LoaderOptions) -> Result<Self, DataError> {
        if options.batch_size == 0 {
            return Err(DataError::Option("batch_size is 0".to_owned()));
        }
        if options.repeats == 0 {
            return Err(DataError::Option("repeats is 0: there would be no batches".to_owned()));
        }
        Ok(DataLoader { dataset: Arc::new(dataset), options, sampler: None, batch: None, pool: Arc::default() })
    }

    /// Sets a sampler, which determines the order; `shuffle` is then ignored.
    pub fn with_sampler(mut self, sampler: impl Sampler + 'static) -> Self {
        self.sampler = Some(Arc::new(sampler));
        self
    }

    /// Sets transforms of whole batches, which run on the batches' device, on the thread that
    /// prepares them; see [`transform_batch`].
    pub fn with_batch_transforms(mut self, pipeline: Arc<Pipeline>) -> Self {
        self.batch = Some(pipeline);
        self
    }

    /// The number of batches in an epoch.
    pub fn len(&self) -> usize {
        self.distinct() * self.options.repeats
    }

    /// The number of cases in an epoch.
    pub fn cases(&self) -> usize {
        self.sampler.as_ref().map_or_else(|| self.dataset.len(), |sampler| sampler.len())
    }

    /// The number of batches in an epoch, each counted once.
    fn distinct(&self) -> usize {
        self.options.batches(self.cases())
    }

    /// Whether an epoch has no batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The data set.
    pub fn dataset(&self) -> &Arc<dyn Dataset> {
        &self.dataset
    }

    /// Returns the batches of an epoch without the first `skip`, which are not prepared: the rest
    /// of a resumed epoch.
    ///
    /// After an error the iterator continues with the next batch. Dropping it within an epoch waits
    /// only for batches that are being prepared.
    pub fn epoch(&self, epoch: u64, skip: u64) -> Batches {
        let repeats = self.options.repeats;
        let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(self.len());
        let (dataset, options) = (self.dataset.clone(), self.options.clone());
        let pipeline = self.batch.clone();
        let run = self.run(epoch, skip / repeats, move |indices, stopped| {
            let Some(samples) = samples(dataset.as_ref(), indices, epoch, stopped)? else {
                return Ok(Batch::default());
            };
            let batch = collate_with(samples, &options.collate)?;
            let batch = match &options.device {
                Some(device) => batch.to_device(device),
                None => batch,
            };
            match &pipeline {
                Some(pipeline) => transform_batch(batch, pipeline, epoch),
                None => Ok(batch),
            }
        });
        Batches { run, repeats, left: self.len() - skip, again: skip % repeats, last: None }
    }

    /// The samples of an epoch's batches, not collated.
    pub(crate) fn samples(&self, epoch: u64) -> Run<Vec<Sample>> {
        let dataset = self.dataset.clone();
        self.run(epoch, 0, move |indices, stopped| {
            Ok(samples(dataset.as_ref(), indices, epoch, stopped)?.unwrap_or_default())
        })
    }

    fn run<T: Send + 'static>(
        &self,
        epoch: u64,
        skip: usize,
        make: impl Fn(&[Turn], &dyn Fn() -> bool) -> Result<T, DataError> + Send + Sync + 'static,
    ) -> Run<T> {
        self.dataset.begin_epoch(epoch);
        let order = match &self.sampler {
            Some(sampler) => sampler.try_turns(epoch),
            None if self.options.shuffle => Ok(turns(shuffled(self.dataset.len(), self.options.seed, epoch))),
            None => Ok(turns((0..self.dataset.len()).collect())),
        };
        let order = match order {
            Ok(order) => order,
            Err(error) => {
                // One batch without cases, in whose place the error is.
                let error = Mutex::new(Some(error));
                let failed = move |_: &[Turn], _: &dyn Fn() -> bool| {
                    let error = error.lock().unwrap_or_else(PoisonError::into_inner).take();
                    Err(error.unwrap_or_else(|| DataError::Option("the epoch has no order".to_owned())))
                };
                return Run::new(vec![Vec::new()], failed, None, 1);
            }
        };
        let batches = order.chunks(self.options.batch_size).take(self.distinct()).skip(skip);
        let plan: Vec<Vec<Turn>> = batches.map(<[Turn]>::to_vec).collect();
        let dataset = self.dataset.clone();
        let work = move |indices: &[Turn], stopped: &dyn Fn() -> bool| {
            let span = tracing::debug_span!("batch", epoch, first = indices.first().map(|turn| turn.index));
            let _entered = span.enter();
            // A custom data set may panic, and so may collation on a lost device.
            catch_unwind(AssertUnwindSafe(|| make(indices, stopped))).unwrap_or_else(|panic| {
                let cases: Vec<&str> = indices.iter().map(|turn| dataset.case(turn.index)).collect();
                let what = format!("preparing the batch panicked: {}", words_of(&*panic));
                Err(DataError::Panic { case: cases.join(", "), what })
            })
        };
        let pool = (self.options.workers > 0)
            .then(|| self.pool.get_or_init(|| Arc::new(Pool::new(self.options.workers))).clone());
        Run::new(plan, work, pool, self.options.buffer.max(1))
    }
}

/// The samples of several cases; `None` if they are no longer needed.
fn samples(
    dataset: &dyn Dataset,
    indices: &[Turn],
    epoch: u64,
    stopped: &dyn Fn() -> bool,
) -> Result<Option<Vec<Sample>>, DataError> {
    let mut samples = Vec::with_capacity(indices.len());
    for turn in indices {
        if stopped() {
            return Ok(None);
        }
        samples.extend(match turn.before {
            0 => dataset.get(turn.index, epoch)?,
            before => dataset.get_again(turn.index, epoch, before)?,
        });
    }
    Ok(Some(samples))
}

/// The batches of one epoch, in order.
#[derive(Debug)]
pub struct Batches {
    run: Run<Batch>,
    repeats: usize,
    left: usize,
    /// Number of times that the last batch was returned.
    again: usize,
    last: Option<Batch>,
}

impl Iterator for Batches {
    type Item = Result<Batch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        if self.again == self.repeats {
            (self.again, self.last) = (0, None);
        }
        if self.last.is_none() {
            match self.run.next()? {
                Ok(batch) => self.last = Some(batch),
                Err(error) => {
                    // An error is returned once, not once per repeat of its batch.
                    self.left = self.left.saturating_sub(self.repeats - self.again);
                    self.again = 0;
                    return Some(Err(error));
                }
            }
        }
        self.left -= 1;
        self.again += 1;
        let last = self.again == self.repeats;
        if last { self.last.take().map(Ok) } else { self.last.clone().map(Ok) }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // An error replaces all repeats of its batch.
        (if self.repeats == 1 { self.left } else { self.left.div_ceil(self.repeats) }, Some(self.left))
    }
}

/// A [`DataLoader`] with at least one thread, so that the next batch is prepared and moved to the
/// device while the current one is used (MONAI's name; `buffer` is its `buffer_size`).
#[derive(Clone, Debug)]
pub struct ThreadDataLoader(DataLoader);

impl ThreadDataLoader {
    /// Creates a loader of this data set.
    ///
    /// # Errors
    /// If the batch size or the number of repeats is 0.
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

/// Loads batches of a fixed number of samples, independent of the number per case: a batch may hold
/// patches of several cases.
#[derive(Clone, Debug)]
pub struct PatchLoader {
    loader: DataLoader,
    batch_size: usize,
}

impl PatchLoader {
    /// Creates a loader of batches of `options.batch_size` samples (not cases). `repeats` is
    /// ignored.
    ///
    /// # Errors
    /// If the batch size is 0.
    pub fn new(dataset: Arc<dyn Dataset>, options: LoaderOptions) -> Result<Self, DataError> {
        let batch_size = options.batch_size;
        if batch_size == 0 {
            return Err(DataError::Option("batch_size is 0".to_owned()));
        }
        Ok(PatchLoader { loader: DataLoader::new(dataset, LoaderOptions { batch_size: 1, ..options })?, batch_size })
    }

    /// Returns the batches of an epoch without the first `skip`. Their samples are still prepared,
    /// because the number per case is not known in advance. An item is the error of a case or of a
    /// batch that cannot be made.
    pub fn epoch(&self, epoch: u64, skip: u64) -> impl Iterator<Item = Result<Batch, DataError>> + Send + use<> {
        let (size, options) = (self.batch_size, self.loader.options.clone());
        let mut run = self.loader.samples(epoch);
        let mut waiting = std::collections::VecDeque::new();
        let mut skip = skip;
        std::iter::from_fn(move || {
            loop {
                while waiting.len() < size {
                    match run.next() {
                        Some(Ok(samples)) => waiting.extend(samples),
                        Some(Err(error)) => return Some(Err(error)),
                        None => break,
                    }
                }
                let count = size.min(waiting.len());
                let drops = options.drop_last || (options.drop_single && count == 1);
                if count == 0 || (count < size && drops) {
                    return None;
                }
                let samples: Vec<Sample> = waiting.drain(..count).collect();
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                let batch = collate_with(samples, &options.collate);
                return Some(batch.map(|batch| match &options.device {
                    Some(device) => batch.to_device(device),
                    None => batch,
                }));
            }
        })
    }
}
