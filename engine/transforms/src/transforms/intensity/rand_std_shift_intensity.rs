use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ranges::{check_symmetric, symmetric};
use super::std_shift_intensity::shift_by_deviation;
use crate::Draw;
use crate::params::Keys;
use crate::transforms::rand_flip::tenth;

/// Applies [`StdShiftIntensity`](super::StdShiftIntensity) with a factor drawn uniformly from
/// `factors`, with probability `prob`.
///
/// A single number `factors` means -factors..factors. One factor is drawn for all channels and
/// keys.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandStdShiftIntensity};
/// let step = RandStdShiftIntensity::new("image", [1.0, 1.0]).prob(1.0);
/// assert_eq!(tiny::apply(step, tiny::line([1.0, 3.0]))?.to_vec(), [2.0, 4.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandStdShiftIntensity {
    keys: Keys,
    /// Range of the factor of the standard deviation: -factors..factors, or a pair.
    factors: OneOrMany<f64>,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    nonzero: bool,
    #[serde(default)]
    channel_wise: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl RandStdShiftIntensity {
    /// Creates the transform, with probability 0.1.
    pub fn new(keys: impl Into<Keys>, factors: impl Into<OneOrMany<f64>>) -> Self {
        RandStdShiftIntensity {
            keys: keys.into(),
            factors: factors.into(),
            prob: tenth(),
            nonzero: false,
            channel_wise: false,
            allow_missing_keys: false,
        }
    }

    fn draw(&self, draw: &Draw, _: &[&Image]) -> Result<f64, TransformError> {
        let (low, high) = symmetric(&self.factors);
        Ok(draw.between(low, high))
    }

    fn change(&self, image: Image, factor: &f64, _: usize) -> Result<Image, TransformError> {
        Ok(shift_by_deviation(image, *factor, self.nonzero, self.channel_wise))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_symmetric("factors", &self.factors)
    }
}

setters!(RandStdShiftIntensity {
    /// Probability that the transform is applied.
    prob: f64,
    /// Whether to ignore zeros and keep them.
    nonzero: bool,
    /// Whether to use the deviation of each channel separately.
    channel_wise: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

random_image_transform!(RandStdShiftIntensity);

transform_entry!(
    RandStdShiftIntensity,
    r#"keys = ["image"]
factors = 0.5
prob = 0.5"#
);
