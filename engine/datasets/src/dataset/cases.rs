//! The shared part of data sets with a pipeline: [`Cases`].

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hearth_kernels::host;
use hearth_transforms::{DrawKey, Pipeline, Sample, Value};

use super::{Dataset, Item, epoch_again};
use crate::{DataError, Running};

/// Cases, and a pipeline whose first steps are deterministic.
#[derive(Debug)]
pub(crate) struct Cases {
    items: Vec<Item>,
    pipeline: Arc<Pipeline>,
    /// Number of steps whose result may be cached.
    split: usize,
}

impl Cases {
    /// The steps before the first random one may be cached.
    pub fn new(items: Vec<Item>, pipeline: impl Into<Arc<Pipeline>>) -> Result<Self, DataError> {
        let pipeline = pipeline.into();
        check_items(&items, &pipeline)?;
        let split = pipeline.split();
        Ok(Cases { items, pipeline, split })
    }

    /// Warns if there is nothing to cache.
    pub fn warn_if_all_is_random(&self) {
        if self.split == 0 && !self.pipeline.is_empty() {
            tracing::warn!(
                "nothing is cached: the first step ({}) is random; put the deterministic steps first",
                self.pipeline.steps()[0].name()
            );
        }
    }

    /// The results of the first `steps` steps are cached, random or not.
    pub fn with_split(mut self, steps: usize) -> Result<Self, DataError> {
        if steps > self.pipeline.len() {
            return Err(DataError::Option(format!(
                "the first {steps} steps can't be cached: the pipeline has {}",
                self.pipeline.len()
            )));
        }
        self.split = steps;
        Ok(self)
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn name(&self, index: usize) -> &str {
        self.items.get(index).map_or("", |item| &item.case)
    }

    pub fn item(&self, index: usize) -> Result<&Item, DataError> {
        self.items.get(index).ok_or_else(|| no_case(index, self.items.len()))
    }

    /// The cached steps' names and parameters, and other properties of the pipeline: the input of a
    /// cache key.
    pub fn describe_fixed(&self) -> String {
        let later = self.split..self.pipeline.len();
        let described = self.pipeline.describe();
        let parts = described.as_array().into_iter().flatten().enumerate();
        let mut out: String = parts.filter(|(i, _)| !later.contains(i)).map(|(_, part)| format!("{part}\n")).collect();
        if self.pipeline.steps()[..self.split].iter().any(|s| s.is_random()) {
            // Cached random steps hold a draw of this seed.
            let DrawKey { seed, rank, .. } = self.pipeline.draw_key(0);
            out.push_str(&format!(" seed {seed} rank {rank}"));
        }
        out
    }

    fn steps(
        &self,
        item: &Item,
        samples: Vec<Sample>,
        epoch: u64,
        steps: Range<usize>,
    ) -> Result<Vec<Sample>, DataError> {
        let key = self.pipeline.draw_key(epoch);
        guarded(&item.case, || {
            let mut samples = self.pipeline.run_steps(samples, key, steps.start, steps.end)?;
            for sample in &mut samples {
                sample.read_stored(|_| false).map_err(|e| DataError::Cache(format!("case {}: {e}", item.case)))?;
            }
            Ok(samples)
        })
    }

    /// Runs all steps.
    pub fn whole(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError> {
        let item = self.item(index)?;
        self.steps(item, vec![item.sample()], epoch, 0..self.pipeline.len())
    }

    /// Runs the cached steps; each resulting tensor owns its memory.
    pub fn fixed(&self, index: usize) -> Result<Vec<Sample>, DataError> {
        let item = self.item(index)?;
        let mut samples = self.steps(item, vec![item.sample()], 0, 0..self.split)?;
        for value in samples.iter_mut().flat_map(|s| s.values.values_mut()) {
            if let Value::Image(image) = value {
                image.data = host::compact(image.data.clone());
            }
        }
        Ok(samples)
    }

    /// Runs the steps after the cached ones. The cached samples may come from another case with the
    /// same content.
    pub fn rest(&self, index: usize, epoch: u64, mut samples: Vec<Sample>) -> Result<Vec<Sample>, DataError> {
        let item = self.item(index)?;
        for sample in &mut samples {
            sample.case.clone_from(&item.case);
            for (key, value) in &mut sample.values {
                let path = match value {
                    Value::Image(image) => &mut image.meta.path,
                    Value::Stored(image) => &mut image.meta.path,
                    _ => continue,
                };
                if let Some(file) = item.files.get(key).filter(|_| path.is_some()) {
                    *path = Some(file.clone());
                }
            }
        }
        self.steps(item, samples, epoch, self.split..self.pipeline.len())
    }
}

/// Runs the whole pipeline at every access. MONAI's `Dataset`; [`Items::transformed`](crate::Items) makes
/// one of a list of cases.
#[derive(Debug)]
pub struct TransformDataset(Cases);

impl TransformDataset {
    /// Creates a data set of cases and a pipeline.
    ///
    /// # Errors
    /// If a case lacks a file that the pipeline loads.
    pub fn new(items: Vec<Item>, pipeline: impl Into<Arc<Pipeline>>) -> Result<Self, DataError> {
        Ok(TransformDataset(Cases::new(items, pipeline)?))
    }
}

impl Dataset for TransformDataset {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn case(&self, index: usize) -> &str {
        self.0.name(index)
    }

    fn get(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError> {
        self.0.whole(index, epoch)
    }

    fn get_again(&self, index: usize, epoch: u64, before: u64) -> Result<Vec<Sample>, DataError> {
        self.get(index, epoch_again(epoch, before))
    }
}

/// The error for an index that does not exist.
pub(crate) fn no_case(index: usize, count: usize) -> DataError {
    DataError::Option(format!("there is no case {index}; the data set has {count}"))
}

fn check_items(items: &[Item], pipeline: &Pipeline) -> Result<(), DataError> {
    let keys = pipeline.input_keys();
    let optional = |key: &str| {
        pipeline.steps().iter().map(|s| s.describe()).any(|d| {
            d["name"] == "LoadImage"
                && d["allow_missing_keys"] == true
                && d["keys"].as_array().is_some_and(|k| k.iter().any(|k| k == key))
        })
    };
    for item in items {
        if let Some(key) = keys.iter().find(|k| !item.has_file(k) && !optional(k)) {
            let known: Vec<&String> = item.files.keys().chain(item.parts.keys()).collect();
            return Err(DataError::Option(format!(
                "case {}: no file for `{key}`, which the pipeline loads; there are files for {known:?}",
                item.case
            )));
        }
    }
    Ok(())
}

/// Converts a panic (for example of a decoder) to an error of that case.
pub(crate) fn guarded<T>(case: &str, work: impl FnOnce() -> Result<T, DataError>) -> Result<T, DataError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(DataError::Panic { case: case.to_owned(), what: format!("panicked: {}", words_of(&*panic)) })
    })
}

/// The message of a panic.
pub(crate) fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown panic".to_owned())
}

/// The number of threads; 0 means the number of cores.
pub(crate) fn threads(workers: usize) -> usize {
    match workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    }
}

/// Runs `work` for each of `indices` in the order of the list, on several threads. It ends early if
/// `work` returns `false` or fails; of several failures that of the first index is returned.
pub(crate) fn for_each(
    indices: Range<usize>,
    workers: usize,
    bar: &Running,
    work: impl Fn(usize) -> Result<bool, DataError> + Sync,
) -> Result<(), DataError> {
    let next = AtomicUsize::new(indices.start);
    let ended = AtomicBool::new(false);
    let failure: Mutex<Option<(usize, DataError)>> = Mutex::new(None);
    let run = || {
        while !ended.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= indices.end {
                break;
            }
            match work(index) {
                Ok(true) => bar.advance(),
                Ok(false) => ended.store(true, Ordering::Relaxed),
                Err(error) => {
                    ended.store(true, Ordering::Relaxed);
                    let mut failure = failure.lock().unwrap_or_else(|p| p.into_inner());
                    if failure.as_ref().is_none_or(|(other, _)| index < *other) {
                        *failure = Some((index, error));
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads(workers).min(indices.len()) {
            // If the system starts no more threads, the existing ones do the work.
            if std::thread::Builder::new().spawn_scoped(scope, run).is_err() {
                break;
            }
        }
        // The calling thread also takes part.
        run();
    });
    match failure.into_inner().unwrap_or_else(|p| p.into_inner()) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}
