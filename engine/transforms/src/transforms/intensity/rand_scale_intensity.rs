use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::linear::{Linear, map_linear};
use super::ranges::{check_symmetric, for_channels, per_channel, symmetric};
use crate::Draw;
use crate::params::Keys;
use crate::transforms::rand_flip::tenth;

/// Multiplies by `1 + f`, with `f` drawn uniformly from `factors`, with probability `prob`.
///
/// A single number `factors` means -factors..factors. With `channel_wise` each channel has its own
/// draw. All keys share the draws.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandScaleIntensity};
/// let step = RandScaleIntensity::new("image", [1.0, 1.0]).prob(1.0);
/// assert_eq!(tiny::apply(step, tiny::line([1.0, 2.0]))?.to_vec(), [2.0, 4.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandScaleIntensity {
    keys: Keys,
    /// Values are multiplied by 1 + a draw from -factors..factors, or from a range.
    factors: OneOrMany<f64>,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    channel_wise: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl RandScaleIntensity {
    /// Creates the transform, with probability 0.1.
    pub fn new(keys: impl Into<Keys>, factors: impl Into<OneOrMany<f64>>) -> Self {
        RandScaleIntensity {
            keys: keys.into(),
            factors: factors.into(),
            prob: tenth(),
            channel_wise: false,
            allow_missing_keys: false,
        }
    }

    fn draw(&self, draw: &Draw, images: &[&Image]) -> Result<Vec<f64>, TransformError> {
        Ok(per_channel(draw, symmetric(&self.factors), self.channel_wise, images))
    }

    fn change(&self, image: Image, drawn: &[f64], _: usize) -> Result<Image, TransformError> {
        let maps: Vec<Linear> = drawn.iter().map(|f| Linear { factor: (1.0 + f) as f32, ..Linear::IDENTITY }).collect();
        let maps = for_channels(&maps, image.channels());
        Ok(map_linear(image, &maps))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_symmetric("factors", &self.factors)
    }
}

setters!(RandScaleIntensity {
    /// Probability that the transform is applied.
    prob: f64,
    /// Whether each channel draws its own number.
    channel_wise: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

random_image_transform!(RandScaleIntensity);

transform_entry!(
    RandScaleIntensity,
    r#"keys = ["image"]
factors = 0.1
prob = 0.5"#
);
