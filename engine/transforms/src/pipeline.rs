//! [`Pipeline`]: transforms in order, checked before the first case.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use hearth_image::spatial::{Lazy, LazySampling, begin_lazy, end_lazy};
use hearth_image::{Applied, Image, TransformError};
use hearth_registry::Fault;
use serde_json::json;

use crate::error::{StepError, ValueState};
use crate::nested::described_steps;
use crate::transforms::plugin_map;
use crate::{Draw, DrawKey, Sample, Steps, Transform, Value};

/// Transforms in order. MONAI's `Compose`.
///
/// ```
/// use hearth_transforms::transforms::{Flip, RandFlip};
/// use hearth_transforms::{Pipeline, Sample, tiny};
/// let steps = Pipeline::new((Flip::new("image"), RandFlip::new("image")))?;
/// let sample = Sample::new("case_1").with_image("image", tiny::line([1.0, 2.0, 3.0]));
/// let samples = steps.run(sample.clone(), steps.draw_key(1))?; // draws of epoch 1
/// assert_eq!(samples.len(), 1);
/// let samples = steps.run_deterministic(sample)?; // up to the first random step
/// assert_eq!(samples[0].image("image")?.to_vec(), [3.0, 2.0, 1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    steps: Vec<Arc<dyn Transform>>,
    lazy: Lazy,
    lazy_sampling: BTreeMap<String, LazySampling>,
    seed: u64,
    rank: u64,
}

/// How a step is applied to a sample.
type Apply<'a> = dyn Fn(&dyn Transform, Sample, &Draw) -> Result<Vec<Sample>, TransformError> + 'a;

impl Pipeline {
    /// Creates a pipeline and checks its steps: keys, sizes, probabilities.
    ///
    /// If no step loads files, every key that a step names is assumed to exist.
    ///
    /// ```
    /// use hearth_transforms::Pipeline;
    /// use hearth_transforms::transforms::{LoadImage, Orientation, RandFlip};
    /// let steps = Pipeline::new((LoadImage::new("image"), Orientation::new("image", "RAS"), RandFlip::new("image")))?;
    /// assert_eq!((steps.len(), steps.without_random().len()), (3, 2));
    /// # Ok::<(), hearth_registry::Fault>(())
    /// ```
    ///
    /// # Errors
    /// The fault of the first invalid step; its path is the step's index and the parameter:
    /// `2.pixdim`.
    pub fn new(steps: impl Steps) -> Result<Self, Fault> {
        let pipeline = Pipeline { steps: steps.into_steps(), ..Pipeline::default() };
        let mut known = BTreeSet::new();
        if pipeline.input_keys().is_empty() {
            known = pipeline.named_keys();
        }
        for (i, step) in pipeline.steps.iter().enumerate() {
            step.check(&mut known).map_err(|fault| named(step.name(), fault).under(&i.to_string()))?;
        }
        Ok(pipeline)
    }

    /// Returns the same pipeline without random steps: for validation and prediction.
    pub fn without_random(&self) -> Self {
        let steps = self.steps.iter().filter(|step| !step.is_random()).cloned().collect();
        Pipeline { steps, lazy_sampling: self.lazy_sampling.clone(), ..*self }
    }

    /// Sets the seed of the draws, by default 0. A draw depends only on seed, epoch, case, step and
    /// rank.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the rank of this process in a distributed run, by default 0. Each rank has its own
    /// draws.
    pub fn rank(mut self, rank: u64) -> Self {
        self.rank = rank;
        self
    }

    /// Returns the key of the draws in an epoch.
    pub fn draw_key(&self, epoch: u64) -> DrawKey {
        DrawKey::new(self.seed, epoch, self.rank)
    }

    /// The keys that steps name (`keys`, `mask_key`, ..., and their [other
    /// keys](Transform::other_keys)) and that no earlier step creates.
    fn named_keys(&self) -> BTreeSet<String> {
        let (mut given, mut made) = (BTreeSet::new(), BTreeSet::new());
        for step in &self.steps {
            let described = step.describe();
            let fields = described_steps(&described).into_iter().filter_map(serde_json::Value::as_object).flatten();
            for (name, value) in fields {
                let named: Vec<&str> = match value {
                    serde_json::Value::Array(keys) if name == "keys" => {
                        keys.iter().filter_map(|k| k.as_str()).collect()
                    }
                    serde_json::Value::String(key) if name.ends_with("_key") || name == "key_dst" => vec![key],
                    _ => Vec::new(),
                };
                given.extend(named.into_iter().filter(|key| !made.contains(*key)).map(str::to_owned));
            }
            given.extend(step.other_keys().into_iter().filter(|key| !made.contains(*key)).map(str::to_owned));
            let before: BTreeSet<String> = given.union(&made).cloned().collect();
            let mut after = before.clone();
            // Errors of the step are reported in the actual check later.
            let _ = step.check(&mut after);
            made.extend(after.difference(&before).cloned());
        }
        given
    }

    /// Sets whether a run of spatial steps is sampled once; by default [`Lazy::Exact`].
    pub fn lazy(mut self, lazy: Lazy) -> Self {
        self.lazy = lazy;
        self
    }

    /// Sets options with which [`Lazy::On`] samples this key, overriding those of its steps.
    pub fn lazy_sampling(mut self, key: impl Into<String>, sampling: LazySampling) -> Self {
        self.lazy_sampling.insert(key.into(), sampling);
        self
    }

    /// The steps.
    pub fn steps(&self) -> &[Arc<dyn Transform>] {
        &self.steps
    }

    /// The number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are no steps.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The index of the first random step: the result of the steps before it can be cached.
    pub fn split(&self) -> usize {
        self.steps.iter().position(|s| s.is_random()).unwrap_or(self.steps.len())
    }

    /// The names of the steps, from the first random one on, that copy images from a GPU through
    /// host memory (see [`Transform::through_host`]), each once.
    pub fn random_through_host(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = Vec::new();
        for step in self.steps.iter().skip(self.split()).filter(|step| step.through_host()) {
            if !names.contains(&step.name()) {
                names.push(step.name());
            }
        }
        names
    }

    /// The keys that files are loaded for.
    pub fn input_keys(&self) -> Vec<String> {
        let described = self.describe();
        let steps = described.as_array().into_iter().flatten().flat_map(described_steps);
        steps
            .filter(|d| d["name"] == "LoadImage" || d["name"] == "LoadRegion")
            .flat_map(|d| d["keys"].as_array().cloned().unwrap_or_default())
            .filter_map(|k| k.as_str().map(str::to_owned))
            .collect()
    }

    /// Names and parameters of all steps, and [`Lazy::On`] if it is set, because it changes their
    /// result.
    pub fn describe(&self) -> serde_json::Value {
        let lazy = (self.lazy == Lazy::On).then(|| json!({ "lazy": self.lazy, "lazy_sampling": self.lazy_sampling }));
        self.steps.iter().map(|s| s.describe()).chain(lazy).collect()
    }

    /// Runs all steps on one sample.
    ///
    /// # Errors
    /// The error of the failed step, with case, file, shape and spacing.
    pub fn run(&self, sample: Sample, key: DrawKey) -> Result<Vec<Sample>, Box<StepError>> {
        self.run_steps(vec![sample], key, 0, self.steps.len())
    }

    /// Runs the steps before the first random one.
    ///
    /// # Errors
    /// The error of the failed step.
    pub fn run_deterministic(&self, sample: Sample) -> Result<Vec<Sample>, Box<StepError>> {
        self.run_steps(vec![sample], DrawKey::new(0, 0, 0), 0, self.split())
    }

    /// Runs the first random step and all steps after it.
    ///
    /// # Errors
    /// The error of the failed step.
    pub fn run_random(&self, samples: Vec<Sample>, key: DrawKey) -> Result<Vec<Sample>, Box<StepError>> {
        self.run_steps(samples, key, self.split(), self.steps.len())
    }

    /// Runs the steps from `from` (inclusive) to `to` (exclusive).
    ///
    /// # Errors
    /// The error of the failed step.
    pub fn run_steps(
        &self,
        samples: Vec<Sample>,
        key: DrawKey,
        from: usize,
        to: usize,
    ) -> Result<Vec<Sample>, Box<StepError>> {
        self.run_with(samples, key, from..to, &|step, sample, draw| step.apply(sample, draw))
    }

    /// Runs all steps on a batch, whose `entries` are in turn the channels of each image.
    ///
    /// # Errors
    /// The error of the failed step.
    pub fn run_batch(&self, batch: Sample, entries: usize, key: DrawKey) -> Result<Vec<Sample>, Box<StepError>> {
        let apply = |step: &dyn Transform, sample, draw: &_| step.apply_to_batch(sample, entries, draw);
        self.run_with(vec![batch], key, 0..self.steps.len(), &apply)
    }

    fn run_with(
        &self,
        mut samples: Vec<Sample>,
        key: DrawKey,
        run: Range<usize>,
        apply: &Apply<'_>,
    ) -> Result<Vec<Sample>, Box<StepError>> {
        for (i, step) in self.steps.iter().enumerate().take(run.end).skip(run.start) {
            let mut next = Vec::with_capacity(samples.len());
            for (part, mut sample) in samples.into_iter().enumerate() {
                let _range = tracing::trace_span!("transform", name = step.name(), case = %sample.case).entered();
                let draw = key.draw(&sample.case, i, part);
                let case = sample.case.clone();
                let values = state(&sample);
                let ready = sample
                    .read_stored(|key| step.reads_boxes(key))
                    .and_then(|()| self.prepare(&mut sample, step.as_ref()));
                let done = ready.and_then(|()| apply(step.as_ref(), sample, &draw)).map_err(|error| {
                    Box::new(StepError {
                        case,
                        step: i + 1,
                        steps: self.steps.len(),
                        transform: step.name().to_owned(),
                        error,
                        values,
                    })
                })?;
                next.extend(done);
            }
            samples = next;
        }
        for sample in &mut samples {
            let values = state(sample);
            sample.map_images(|_, image| end_lazy(image)).map_err(|error| {
                let (case, steps) = (sample.case.clone(), self.steps.len());
                let transform = "lazy resampling".to_owned();
                Box::new(StepError { case, step: run.end, steps, transform, error, values })
            })?;
        }
        Ok(samples)
    }

    /// Prepares an image for a step: continues lazily, or applies the pending operations.
    fn prepare(&self, sample: &mut Sample, step: &dyn Transform) -> Result<(), TransformError> {
        let lazy = step.is_lazy() && self.lazy != Lazy::Off;
        sample.map_images(|key, mut image| {
            if !lazy || step.requires_current_data() {
                image = end_lazy(image)?;
            }
            if !lazy {
                return Ok(image);
            }
            begin_lazy(&mut image, self.lazy, self.lazy_sampling.get(key).copied());
            Ok(image)
        })
    }

    /// Maps a prediction back to the grid that `like` was loaded with: inverts all spatial
    /// operations of `like` on `prediction`, whose voxels correspond to those of `like` (channels
    /// may differ). Use `nearest` for label maps.
    ///
    /// # Errors
    /// If the prediction has a shape that differs from that of `like`, an affine cannot be inverted,
    /// or the inverse of a plugin's step fails.
    pub fn invert(&self, prediction: Image, like: &Image, nearest: bool) -> Result<Image, TransformError> {
        invert(prediction, like, nearest)
    }
}

/// Adds the transform's name to a fault of a step.
pub(crate) fn named(transform: &str, mut fault: Fault) -> Fault {
    fault.message = match fault.path.is_empty() {
        true => format!("{transform}: {}", fault.message),
        false => format!("{transform}: `{}`: {}", fault.path, fault.message),
    };
    fault
}

/// Implements [`Pipeline::invert`]; `like` holds all the data that is needed.
pub(crate) fn invert(prediction: Image, like: &Image, nearest: bool) -> Result<Image, TransformError> {
    if prediction.shape() != like.shape() {
        return Err(TransformError::new(format!("the prediction has {:?} voxels", prediction.shape()))
            .expected(format!("{:?}, the shape of the transformed input", like.shape())));
    }
    let prediction = end_lazy(prediction)?;
    let mut image = Image { data: prediction.data, affine: like.affine, meta: like.meta.clone() };
    while let Some(last) = image.meta.applied.last().cloned() {
        image = match last {
            Applied::Foreign { affine, shape, inverse, .. } => {
                plugin_map::undo(image, &inverse, shape, affine, nearest)?
            }
            _ => image.undo_last(nearest)?,
        };
    }
    image.affine = like.meta.original_affine;
    Ok(image)
}

/// The state of the values for an error message, recorded before the step consumes them.
fn state(sample: &Sample) -> Vec<ValueState> {
    sample
        .values
        .iter()
        .filter_map(|(key, value)| match value {
            Value::Image(image) => Some(ValueState {
                key: key.clone(),
                path: image.meta.path.clone(),
                shape: Some([image.channels(), image.shape()[0], image.shape()[1], image.shape()[2]]),
                spacing: Some(image.spacing()),
            }),
            Value::Stored(image) => {
                let [x, y, z] = image.shape();
                Some(ValueState {
                    key: key.clone(),
                    path: image.meta.path.clone(),
                    shape: Some([image.channels(), x, y, z]),
                    spacing: Some(hearth_image::affine::spacing(&image.affine)),
                })
            }
            Value::Path(path) => {
                Some(ValueState { key: key.clone(), path: Some(path.clone()), shape: None, spacing: None })
            }
            _ => None,
        })
        .collect()
}
