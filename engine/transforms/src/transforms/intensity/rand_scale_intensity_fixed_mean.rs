use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ranges::{check_symmetric, per_channel, symmetric};
use super::scale_intensity_fixed_mean::scale_around_mean;
use super::yes;
use crate::Draw;
use crate::params::Keys;
use crate::transforms::rand_flip::tenth;

/// Applies [`ScaleIntensityFixedMean`](super::ScaleIntensityFixedMean) with a factor drawn
/// uniformly from `factors`, with probability `prob`.
///
/// A single number `factors` means -factors..factors. With `channel_wise` each channel has its own
/// draw. All keys share the draws.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandScaleIntensityFixedMean};
/// let step = RandScaleIntensityFixedMean::new("image", [1.0, 1.0]).prob(1.0);
/// assert_eq!(tiny::apply(step, tiny::line([1.0, 3.0]))?.to_vec(), [0.0, 4.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandScaleIntensityFixedMean {
    keys: Keys,
    /// Distances from the mean are multiplied by 1 + a draw from -factors..factors, or from a
    /// range.
    factors: OneOrMany<f64>,
    #[serde(default = "yes")]
    fixed_mean: bool,
    #[serde(default)]
    preserve_range: bool,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    channel_wise: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl RandScaleIntensityFixedMean {
    /// Creates the transform, with probability 0.1.
    pub fn new(keys: impl Into<Keys>, factors: impl Into<OneOrMany<f64>>) -> Self {
        RandScaleIntensityFixedMean {
            keys: keys.into(),
            factors: factors.into(),
            fixed_mean: true,
            preserve_range: false,
            prob: tenth(),
            channel_wise: false,
            allow_missing_keys: false,
        }
    }

    fn draw(&self, draw: &Draw, images: &[&Image]) -> Result<Vec<f64>, TransformError> {
        Ok(per_channel(draw, symmetric(&self.factors), self.channel_wise, images))
    }

    fn change(&self, image: Image, drawn: &[f64], _: usize) -> Result<Image, TransformError> {
        Ok(scale_around_mean(image, drawn, self.fixed_mean, self.preserve_range))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_symmetric("factors", &self.factors)
    }
}

setters!(RandScaleIntensityFixedMean {
    /// Whether to keep the mean.
    fixed_mean: bool,
    /// Whether to clip to the range of the input.
    preserve_range: bool,
    /// Probability that the transform is applied.
    prob: f64,
    /// Whether each channel draws its own number.
    channel_wise: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

random_image_transform!(RandScaleIntensityFixedMean);

transform_entry!(
    RandScaleIntensityFixedMean,
    r#"keys = ["image"]
factors = 0.1
prob = 0.5"#
);
