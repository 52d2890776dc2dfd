use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::adjust_contrast::{adjust_contrast, check_gamma};
use crate::Draw;
use crate::params::Keys;
use crate::transforms::rand_flip::tenth;

/// Applies [`AdjustContrast`](super::AdjustContrast) with a gamma drawn uniformly, with probability
/// `prob`.
///
/// A single number `gamma` means 0.5..gamma. All keys share the gamma.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandAdjustContrast};
/// let step = RandAdjustContrast::new("image").prob(1.0).gamma([2.0, 2.0]);
/// let image = tiny::apply(step, tiny::line([0.0, 0.5, 1.0]))?;
/// assert!(tiny::is_near(&image, [0.0, 0.25, 1.0]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandAdjustContrast {
    keys: Keys,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default = "gammas")]
    gamma: OneOrMany<f64>,
    #[serde(default)]
    invert_image: bool,
    #[serde(default)]
    retain_stats: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn gammas() -> OneOrMany<f64> {
    OneOrMany::from([0.5, 4.5])
}

impl RandAdjustContrast {
    /// Creates the transform: gamma from 0.5 to 4.5, with probability 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandAdjustContrast {
            keys: keys.into(),
            prob: tenth(),
            gamma: gammas(),
            invert_image: false,
            retain_stats: false,
            allow_missing_keys: false,
        }
    }

    fn range(&self) -> (f64, f64) {
        match self.gamma.as_slice() {
            [a, b] => (a.min(*b), a.max(*b)),
            one => (0.5, one.first().copied().unwrap_or(0.5)),
        }
    }

    fn draw(&self, draw: &Draw, _: &[&Image]) -> Result<f64, TransformError> {
        let (low, high) = self.range();
        Ok(draw.between(low, high))
    }

    fn change(&self, image: Image, gamma: &f64, _: usize) -> Result<Image, TransformError> {
        Ok(adjust_contrast(image, *gamma, self.invert_image, self.retain_stats))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        match self.gamma.as_slice() {
            [high] if *high <= 0.5 => {
                Err(Fault::at("gamma", format!("a single number must be larger than 0.5 (0.5 to gamma), not {high}")))
            }
            [_] | [_, _] => self.gamma.as_slice().iter().try_for_each(|v| check_gamma(*v)),
            _ => Err(Fault::at("gamma", "must be one number or a pair")),
        }
    }
}

setters!(RandAdjustContrast {
    /// Probability that the transform is applied.
    prob: f64,
    /// Range of gamma.
    gamma: OneOrMany<f64>,
    /// Whether to apply it to the negated image.
    invert_image: bool,
    /// Whether to keep mean and standard deviation.
    retain_stats: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

random_image_transform!(RandAdjustContrast);

transform_entry!(
    RandAdjustContrast,
    r#"keys = ["image"]
prob = 0.5
gamma = [0.7, 1.5]"#
);
