//! [`ZipDataset`] and [`PatchDataset`]: data sets that combine or wrap others.

use std::sync::Arc;

use hearth_transforms::{Pipeline, Sample};

use super::{Dataset, guarded};
use crate::DataError;

/// Combines several data sets: case i has the values of case i of each. Its length is that of the
/// shortest.
///
/// With one data set per key, each with its own pipeline, it corresponds to MONAI's `ArrayDataset`:
/// random steps at the same index of the pipelines make the same draws for image and label.
pub struct ZipDataset(Vec<Arc<dyn Dataset>>);

impl ZipDataset {
    /// Combines these data sets.
    ///
    /// # Errors
    /// If there is no data set, or case names differ (draws depend on them).
    pub fn new(datasets: Vec<Arc<dyn Dataset>>) -> Result<Self, DataError> {
        let Some((first, others)) = datasets.split_first() else {
            return Err(DataError::Option("no data set to combine".to_owned()));
        };
        let length = datasets.iter().map(|d| d.len()).min().unwrap_or(0);
        for other in others {
            if let Some(index) = (0..length).find(|i| first.case(*i) != other.case(*i)) {
                let (a, b) = (first.case(index), other.case(index));
                return Err(DataError::Option(format!(
                    "case {index} is {a} in one data set and {b} in another; they must be the same cases in the same order"
                )));
            }
        }
        Ok(ZipDataset(datasets))
    }
}

impl Dataset for ZipDataset {
    fn len(&self) -> usize {
        self.0.iter().map(|d| d.len()).min().unwrap_or(0)
    }

    fn case(&self, index: usize) -> &str {
        self.0.first().map_or("", |d| d.case(index))
    }

    fn begin_epoch(&self, epoch: u64) {
        self.0.iter().for_each(|d| d.begin_epoch(epoch));
    }

    fn get(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError> {
        let mut out: Vec<Sample> = Vec::new();
        for (place, dataset) in self.0.iter().enumerate() {
            let samples = dataset.get(index, epoch)?;
            if place == 0 {
                out = samples;
                continue;
            }
            let case = self.case(index);
            if samples.len() != out.len() {
                let (a, b) = (out.len(), samples.len());
                return Err(DataError::Option(format!("case {case}: {a} samples in one data set, {b} in another")));
            }
            for (sample, other) in out.iter_mut().zip(samples) {
                for (key, value) in other.values {
                    if sample.values.contains_key(&key) {
                        return Err(DataError::Option(format!(
                            "case {case}: two of the data sets have a value `{key}`"
                        )));
                    }
                    sample.values.insert(key, value);
                }
            }
        }
        Ok(out)
    }
}

/// Samples of another data set with further steps applied to each: patches of images that are
/// loaded or cached elsewhere.
///
/// All patches of a case are samples of that case; a [`PatchLoader`](crate::PatchLoader) makes
/// batches of a fixed number of patches.
pub struct PatchDataset {
    dataset: Arc<dyn Dataset>,
    patches: Pipeline,
    samples_per_image: Option<usize>,
}

impl PatchDataset {
    /// Creates a data set. The draws of the steps depend on seed, epoch and case, and on their
    /// index in `patches`.
    pub fn new(dataset: impl Dataset + 'static, patches: Pipeline) -> Self {
        PatchDataset { dataset: Arc::new(dataset), patches, samples_per_image: None }
    }

    /// Makes another number of patches per case an error.
    pub fn with_samples_per_image(mut self, samples: usize) -> Self {
        self.samples_per_image = Some(samples);
        self
    }
}

impl Dataset for PatchDataset {
    fn len(&self) -> usize {
        self.dataset.len()
    }

    fn case(&self, index: usize) -> &str {
        self.dataset.case(index)
    }

    fn begin_epoch(&self, epoch: u64) {
        self.dataset.begin_epoch(epoch);
    }

    fn get(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError> {
        let samples = self.dataset.get(index, epoch)?;
        let case = self.dataset.case(index);
        let key = self.patches.draw_key(epoch);
        let patches = guarded(case, || Ok(self.patches.run_steps(samples, key, 0, self.patches.len())?))?;
        match self.samples_per_image {
            Some(n) if n != patches.len() => {
                Err(DataError::Option(format!("case {case} has {} patches, expected {n}", patches.len())))
            }
            _ => Ok(patches),
        }
    }
}
