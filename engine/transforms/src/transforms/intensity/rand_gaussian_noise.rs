use burn::tensor::{Tensor, TensorData};
use hearth_image::{Image, TransformError};
use hearth_kernels::host;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ranges::check_finite;
use super::yes;
use crate::Draw;
use crate::params::Keys;
use crate::transforms::rand_flip::tenth;

/// Adds normal noise of mean `mean` with probability `prob`. Its standard deviation is drawn
/// uniformly from 0..`std`, or is `std` itself if `sample_std` is false. All keys of the same shape
/// get the same noise.
///
/// The CPU generates the noise, so that a batch is the same on every device.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandGaussianNoise};
/// let step = RandGaussianNoise::new("image").prob(1.0).std(0.01).sample_std(false);
/// let values = tiny::apply(step, tiny::line([1.0; 4]))?.to_vec();
/// assert!(values[0] != values[1] && values.iter().all(|value| (value - 1.0).abs() < 0.1));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandGaussianNoise {
    keys: Keys,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    mean: f64,
    #[serde(default = "tenth")]
    std: f64,
    #[serde(default = "yes")]
    sample_std: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl RandGaussianNoise {
    /// Creates the transform: deviation up to 0.1, with probability 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandGaussianNoise {
            keys: keys.into(),
            prob: tenth(),
            mean: 0.0,
            std: tenth(),
            sample_std: true,
            allow_missing_keys: false,
        }
    }

    fn draw(&self, draw: &Draw, _: &[&Image]) -> Result<(f32, Draw), TransformError> {
        let std = if self.sample_std { draw.between(0.0, self.std) } else { self.std };
        Ok((std as f32, draw.part(0)))
    }

    fn change(&self, mut image: Image, (std, noise): &(f32, Draw), _: usize) -> Result<Image, TransformError> {
        image.data = add_noise(image.data, noise, self.mean as f32, *std);
        Ok(image)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_finite("mean", self.mean)?;
        check_deviation(self.std)
    }
}

/// Adds normal noise, on any device.
pub(super) fn add_noise(data: Tensor<4>, noise: &Draw, mean: f32, std: f32) -> Tensor<4> {
    host::change(data, |values| noise.add_normal(values, mean, std)).unwrap_or_else(|data| {
        let dims = data.dims();
        let mut values = vec![0.0; dims.iter().product()];
        noise.add_normal(&mut values, mean, std);
        let noise = Tensor::from_data(TensorData::new(values, dims), &data.device());
        data + noise
    })
}

/// Checks that a standard deviation is finite and not negative.
pub(super) fn check_deviation(std: f64) -> Result<(), Fault> {
    if std >= 0.0 && std.is_finite() {
        Ok(())
    } else {
        Err(Fault::at("std", format!("{std} must be a finite number, not negative")))
    }
}

setters!(RandGaussianNoise {
    /// Probability that the transform is applied.
    prob: f64,
    /// Mean of the noise.
    mean: f64,
    /// Standard deviation of the noise, or its maximum.
    std: f64,
    /// Whether the deviation is drawn.
    sample_std: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

random_image_transform!(RandGaussianNoise);

transform_entry!(
    RandGaussianNoise,
    r#"keys = ["image"]
prob = 0.5
std = 0.05"#
);
