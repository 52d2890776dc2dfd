use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::gibbs_noise::cut_frequencies;
use super::ranges::check_pair;
use crate::Draw;
use crate::params::Keys;
use crate::transforms::rand_flip::tenth;

/// Applies [`GibbsNoise`](super::GibbsNoise) with an alpha drawn uniformly, with probability
/// `prob`.
///
/// A single number `alpha` means 0..alpha. All keys share the alpha.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandGibbsNoise};
/// let stripes = tiny::line([1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0]);
/// let image = tiny::apply(RandGibbsNoise::new("image").prob(1.0).alpha([0.5, 0.5]), stripes)?;
/// assert!(tiny::is_near(&image, [0.0; 8]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandGibbsNoise {
    keys: Keys,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default = "all")]
    alpha: OneOrMany<f64>,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn all() -> OneOrMany<f64> {
    OneOrMany::from([0.0, 1.0])
}

impl RandGibbsNoise {
    /// Creates the transform: any alpha, with probability 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandGibbsNoise { keys: keys.into(), prob: tenth(), alpha: all(), allow_missing_keys: false }
    }

    fn range(&self) -> [f64; 2] {
        match self.alpha.as_slice() {
            [low, high] => [*low, *high],
            one => [0.0, one.first().copied().unwrap_or(0.0)],
        }
    }

    fn draw(&self, draw: &Draw, _: &[&Image]) -> Result<f64, TransformError> {
        let [low, high] = self.range();
        Ok(draw.between(low, high))
    }

    fn change(&self, image: Image, alpha: &f64, _: usize) -> Result<Image, TransformError> {
        Ok(cut_frequencies(image, *alpha))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        match self.alpha.as_slice().len() {
            1 | 2 => check_pair("alpha", self.range(), 0.0, 1.0),
            _ => Err(Fault::at("alpha", "must be one number or a pair")),
        }
    }
}

setters!(RandGibbsNoise {
    /// Probability that the transform is applied.
    prob: f64,
    /// Range of alpha.
    alpha: OneOrMany<f64>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

random_image_transform!(RandGibbsNoise, through_host: |_| true);

transform_entry!(
    RandGibbsNoise,
    r#"keys = ["image"]
prob = 0.5
alpha = [0.0, 0.5]"#
);
