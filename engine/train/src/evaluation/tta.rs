//! Test-time augmentation: [`TestTimeAugmentation`].

use std::fmt;
use std::sync::Arc;

use burn::tensor::Tensor;
use derive_setters::Setters;
use hearth_data::{DrawKey, Image, Pipeline, Sample, affine};
use hearth_nn::inferers::{InferError, Inferer};
use hearth_registry::Fault;

/// How an image is augmented before it is predicted.
#[derive(Clone)]
enum How {
    /// All combinations of flips along these spatial axes, the unflipped image first.
    Flips(Vec<usize>),
    /// Random draws of transforms.
    Random { pipeline: Arc<Pipeline>, num_examples: usize, seed: u64, nearest_interp: bool },
}

/// The reason why an augmentation cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TtaError {
    /// The axes are invalid: spatial axes are 0, 1 and 2, each at most once.
    #[error("flips along {0:?}: expected one to three of the axes 0, 1, 2, each once")]
    Axes(Vec<usize>),
    /// No transform is random, so all examples would be the same.
    #[error("none of the transforms is random: all examples would be the same")]
    NotRandom,
    /// The number of examples is 0.
    #[error("num_examples is 0: expected at least 1")]
    NoExample,
}

/// Maps over all examples, each with the shape of a prediction; see [`TestTimeAugmentation::maps`].
#[derive(Clone, Debug)]
pub struct TtaMaps {
    /// The most frequent value, after truncation to integers; the smallest of equally frequent
    /// ones.
    pub mode: Tensor<5>,
    /// The mean over the examples.
    pub mean: Tensor<5>,
    /// The standard deviation over the examples, with `n - 1`; NaN for a single example.
    pub std: Tensor<5>,
    /// The volume variation coefficient: standard deviation divided by mean, over all values of all
    /// examples.
    pub vvc: f64,
    /// The sum of all values of each example: for probabilities, the expected number of voxels. Empty
    /// where it cannot be read from the device.
    pub sums: Vec<f64>,
}

/// MONAI's `TestTimeAugmentation`: predicts an image several times, each time augmented
/// differently, undoes the augmentation on each prediction, and combines the predictions (Wang et
/// al., <https://doi.org/10.1016/j.neucom.2019.01.103>).
///
/// It is an inferer that wraps an inferer and returns the mean; [`maps`](Self::maps) returns
/// MONAI's four results. Flips are undone exactly. Random transforms are those of a [`Pipeline`]
/// with the key [`KEY`](Self::KEY); they work on voxels of 1 mm, and [`Pipeline::invert`] undoes
/// them. The draws depend only on the seed, the example and the index in the batch.
///
/// ```
/// # use std::sync::Arc;
/// # use burn::tensor::{Device, Int, Tensor};
/// # use hearth_nn::inferers::{Inferer, SimpleInferer};
/// # use hearth_train::TestTimeAugmentation;
/// let flips = TestTimeAugmentation::flips(Arc::new(SimpleInferer {}), &[0, 1, 2])?;
/// let image = Tensor::<1, Int>::arange(0..64, &Device::default()).float().reshape([1, 1, 4, 4, 4]);
/// let same = flips.infer(image.clone(), &|x| x)?;
/// same.into_data().assert_eq(&image.into_data(), true);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Setters)]
pub struct TestTimeAugmentation {
    #[setters(skip)]
    inner: Arc<dyn Inferer>,
    #[setters(skip)]
    how: How,
}

impl fmt::Debug for TestTimeAugmentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("TestTimeAugmentation");
        text.field("inner", &self.inner.name());
        match &self.how {
            How::Flips(axes) => text.field("flips", axes),
            How::Random { pipeline, num_examples, .. } => {
                text.field("transforms", &pipeline.len()).field("num_examples", num_examples)
            }
        };
        text.finish()
    }
}

impl TestTimeAugmentation {
    /// The key for transforms in a test-time augmentation.
    pub const KEY: &str = "image";

    /// Makes all combinations of flips along some spatial axes (0, 1, 2): eight for a volume. An
    /// axis of length 1 is not flipped.
    ///
    /// # Errors
    /// For no axis, an unknown one, or one given twice.
    pub fn flips(inner: Arc<dyn Inferer>, axes: &[usize]) -> Result<Self, TtaError> {
        let twice = axes.iter().enumerate().any(|(i, axis)| axes[..i].contains(axis));
        if axes.is_empty() || twice || axes.iter().any(|axis| *axis > 2) {
            return Err(TtaError::Axes(axes.to_vec()));
        }
        Ok(Self { inner, how: How::Flips(axes.to_vec()) })
    }

    /// Makes `num_examples` draws of these transforms. With `nearest_interp`, predictions are
    /// resampled by the nearest voxel, as class maps need; otherwise linearly.
    ///
    /// # Errors
    /// Where no transform is random, or `num_examples` is 0.
    pub fn random(
        inner: Arc<dyn Inferer>,
        pipeline: Arc<Pipeline>,
        num_examples: usize,
        seed: u64,
        nearest_interp: bool,
    ) -> Result<Self, TtaError> {
        if num_examples == 0 {
            return Err(TtaError::NoExample);
        }
        if !pipeline.steps().iter().any(|step| step.is_random()) {
            return Err(TtaError::NotRandom);
        }
        Ok(Self { inner, how: How::Random { pipeline, num_examples, seed, nearest_interp } })
    }

    /// The number of predictions for an image of this shape, `[b, c, x, y, z]`.
    pub fn num_examples(&self, shape: [usize; 5]) -> usize {
        match &self.how {
            How::Flips(axes) => 1 << axes.iter().filter(|axis| shape[2 + **axis] > 1).count(),
            How::Random { num_examples, .. } => *num_examples,
        }
    }

    /// Calls `each` with every prediction for `x`, `[b, c, x, y, z]`, mapped back to the image's own
    /// grid.
    ///
    /// # Errors
    /// Where the inferer or a transform fails, or a prediction cannot be mapped back.
    pub fn examples(
        &self,
        x: &Tensor<5>,
        net: &dyn Fn(Tensor<5>) -> Tensor<5>,
        mut each: impl FnMut(Tensor<5>),
    ) -> Result<(), InferError> {
        for example in 0..self.num_examples(x.dims()) {
            each(match &self.how {
                How::Flips(axes) => {
                    let axes: Vec<usize> = axes.iter().copied().filter(|axis| x.dims()[2 + axis] > 1).collect();
                    let chosen = |i: &usize| example >> i & 1 == 1;
                    let axes: Vec<usize> = (0..axes.len()).filter(chosen).map(|i| 2 + axes[i]).collect();
                    let turn = |x: Tensor<5>| axes.iter().fold(x, |x, axis| x.flip([*axis]));
                    turn(self.inner.infer(turn(x.clone()), net)?)
                }
                How::Random { pipeline, seed, nearest_interp, .. } => {
                    let key = DrawKey::new(*seed, example as u64, 0);
                    let mut items = Vec::with_capacity(x.dims()[0]);
                    for item in 0..x.dims()[0] {
                        items.push(self.drawn(
                            x.clone().narrow(0, item, 1),
                            (pipeline, key, *nearest_interp),
                            item,
                            net,
                        )?);
                    }
                    Tensor::cat(items, 0)
                }
            });
        }
        Ok(())
    }

    /// Predicts one item, `[1, c, x, y, z]`, under one draw, and maps the result back.
    fn drawn(
        &self,
        x: Tensor<5>,
        (pipeline, key, nearest): (&Pipeline, DrawKey, bool),
        item: usize,
        net: &dyn Fn(Tensor<5>) -> Tensor<5>,
    ) -> Result<Tensor<5>, InferError> {
        let fail = |reason: String| InferError::Augment { example: key.epoch as usize + 1, reason };
        let spatial_dims = if x.dims()[4] == 1 { 2 } else { 3 };
        let image = Image::new(x.squeeze_dim(0), affine::IDENTITY).with_spatial_dims(spatial_dims);
        let sample = Sample::new(item.to_string()).with_image(Self::KEY, image);
        let mut made = pipeline.run(sample, key).map_err(|e| fail(format!("{}: {}", e.transform, e.error)))?;
        let (Some(mut sample), true) = (made.pop(), made.is_empty()) else {
            return Err(fail("the transforms must return one image for each".to_owned()));
        };
        let like = sample.take_image(Self::KEY).map_err(|e| fail(e.to_string()))?;
        let output = self.inner.infer(like.data.clone().unsqueeze_dim(0), net)?;
        let output = Image { data: output.squeeze_dim(0), affine: like.affine, meta: like.meta.clone() };
        let back = pipeline.invert(output, &like, nearest).map_err(|e| fail(e.to_string()))?;
        Ok(back.data.unsqueeze_dim(0))
    }

    /// Mode, mean, standard deviation and volume variation coefficient over the examples; all of
    /// them are in memory at once. `net` may do more than predict, for example return class maps
    /// for the mode.
    ///
    /// # Errors
    /// Same as [`examples`](Self::examples).
    pub fn maps(&self, x: &Tensor<5>, net: &dyn Fn(Tensor<5>) -> Tensor<5>) -> Result<TtaMaps, InferError> {
        let mut all: Vec<Tensor<5>> = Vec::with_capacity(self.num_examples(x.dims()));
        self.examples(x, net, |prediction| all.push(prediction))?;
        let mode = mode(&all).unwrap_or_else(|| x.clone());
        let stacked: Tensor<6> = Tensor::stack(all, 0);
        let count = stacked.dims()[0] as f64;
        let mean: Tensor<5> = stacked.clone().mean_dim(0).squeeze_dim(0);
        let off = stacked.clone() - mean.clone().unsqueeze_dim(0);
        let std: Tensor<5> = ((off.clone() * off).sum_dim(0) / (count - 1.0)).sqrt().squeeze_dim(0);
        Ok(TtaMaps { mode, mean, std, vvc: variation(stacked.clone()), sums: sums(stacked) })
    }
}

/// The most frequent whole number at each voxel, the smallest in a tie.
fn mode(all: &[Tensor<5>]) -> Option<Tensor<5>> {
    // Truncated towards zero, as a cast to integers does.
    let whole: Vec<Tensor<5>> = all.iter().map(|x| x.clone().abs().floor() * x.clone().sign()).collect();
    let votes = |x: &Tensor<5>| {
        let same = whole.iter().map(|other| x.clone().equal(other.clone()).float());
        same.reduce(|sum, one| sum + one).unwrap_or_else(|| x.zeros_like())
    };
    let mut best: Option<(Tensor<5>, Tensor<5>)> = None;
    for x in &whole {
        let count = votes(x);
        best = Some(match best.take() {
            None => (x.clone(), count),
            Some((value, most)) => {
                let less = x.clone().lower(value.clone()).bool_and(count.clone().equal(most.clone()));
                let wins = count.clone().greater(most.clone()).bool_or(less);
                (value.mask_where(wins.clone(), x.clone()), most.mask_where(wins, count))
            }
        });
    }
    best.map(|(value, _)| value)
}

/// The sum of each example.
fn sums(stacked: Tensor<6>) -> Vec<f64> {
    let of_each: Tensor<2> = stacked.flatten(1, 5);
    let values = of_each.sum_dim(1).try_into_data_as::<f32>();
    values
        .ok()
        .and_then(|data| data.try_into_vec::<f32>().ok())
        .unwrap_or_default()
        .into_iter()
        .map(f64::from)
        .collect()
}

/// Standard deviation (with `n - 1`) over mean, of all values; NaN where they cannot be read from
/// the device.
fn variation(stacked: Tensor<6>) -> f64 {
    let count = stacked.shape().num_elements() as f64;
    let Ok(mean) = stacked.clone().mean().try_into_scalar::<f32>() else { return f64::NAN };
    let off = stacked - mean;
    let squares = (off.clone() * off).mean().try_into_scalar::<f32>().map_or(f64::NAN, f64::from);
    (squares * count / (count - 1.0)).sqrt() / f64::from(mean)
}

impl Inferer for TestTimeAugmentation {
    fn name(&self) -> &'static str {
        "TestTimeAugmentation"
    }

    fn check(&self) -> Result<(), InferError> {
        self.inner.check()
    }

    fn check_for(&self, spatial_dims: usize) -> Result<(), InferError> {
        self.inner.check_for(spatial_dims)
    }

    fn load(&self) -> Result<(), Fault> {
        self.inner.load()
    }

    fn through_host(&self) -> bool {
        self.inner.through_host()
    }

    fn infer(&self, x: Tensor<5>, net: &dyn Fn(Tensor<5>) -> Tensor<5>) -> Result<Tensor<5>, InferError> {
        let mut sum: Option<Tensor<5>> = None;
        self.examples(&x, net, |prediction| {
            sum = Some(match sum.take() {
                Some(sum) => sum + prediction,
                None => prediction,
            });
        })?;
        let count = self.num_examples(x.dims()) as f64;
        Ok(sum.map_or(x, |sum| sum / count))
    }
}
