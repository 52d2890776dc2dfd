use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::gaussian_smooth::{GaussianApprox, check_sigma, smooth};
use super::ranges::check_finite;
use super::values::zip;
use crate::params::Keys;

/// Sharpens by unsharp masking: the image smoothed by `sigma1`, plus `alpha` times its difference
/// from itself smoothed once more by `sigma2`.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::GaussianSharpen};
/// let edge = tiny::line([0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
/// let values = tiny::apply(GaussianSharpen::new("image").sigma1(0.5), edge)?.to_vec();
/// assert!(values[3] - values[2] > 1.0);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GaussianSharpen {
    keys: Keys,
    #[serde(default = "three")]
    sigma1: OneOrMany<f64>,
    #[serde(default = "one")]
    sigma2: OneOrMany<f64>,
    #[serde(default = "thirty")]
    alpha: f64,
    #[serde(default)]
    approx: GaussianApprox,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn three() -> OneOrMany<f64> {
    OneOrMany::One(3.0)
}

fn one() -> OneOrMany<f64> {
    OneOrMany::One(1.0)
}

fn thirty() -> f64 {
    30.0
}

impl GaussianSharpen {
    /// Creates the transform: sigmas 3 and 1, alpha 30.
    pub fn new(keys: impl Into<Keys>) -> Self {
        GaussianSharpen {
            keys: keys.into(),
            sigma1: three(),
            sigma2: one(),
            alpha: thirty(),
            approx: GaussianApprox::default(),
            allow_missing_keys: false,
        }
    }

    /// Sharpens one image.
    ///
    /// # Errors
    /// Those of [`GaussianSmooth::smooth`](super::GaussianSmooth::smooth).
    pub fn sharpen(&self, image: Image) -> Result<Image, TransformError> {
        sharpen(image, &self.sigma1, &self.sigma2, self.alpha, self.approx)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_sigma("sigma1", &self.sigma1)?;
        check_sigma("sigma2", &self.sigma2)?;
        check_finite("alpha", self.alpha)
    }
}

/// Applies [`GaussianSharpen`] with given numbers.
pub(super) fn sharpen(
    image: Image,
    sigma1: &OneOrMany<f64>,
    sigma2: &OneOrMany<f64>,
    alpha: f64,
    approx: GaussianApprox,
) -> Result<Image, TransformError> {
    let once = smooth(image, sigma1, approx)?;
    let twice = smooth(once.clone(), sigma2, approx)?.data;
    let alpha = alpha as f32;
    Ok(zip(once, &twice, |a, b| a + alpha * (a - b), |a, b| a.clone() + (a - b) * alpha))
}

setters!(GaussianSharpen {
    /// Standard deviation in voxels of the first smoothing, one or one per axis.
    sigma1: OneOrMany<f64>,
    /// Standard deviation in voxels of the second smoothing, one or one per axis.
    sigma2: OneOrMany<f64>,
    /// Strength of the sharpening.
    alpha: f64,
    /// How the Gaussians are discretized.
    approx: GaussianApprox,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(GaussianSharpen, sharpen);

transform_entry!(
    GaussianSharpen,
    r#"keys = ["image"]
sigma1 = 3.0
sigma2 = 1.0
alpha = 10.0"#
);
