use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::gaussian_smooth::{GaussianApprox, smooth};
use super::ranges::check_pair;
use crate::Draw;
use crate::params::Keys;
use crate::transforms::rand_flip::tenth;

/// Applies [`GaussianSmooth`](super::GaussianSmooth) with a sigma per axis drawn uniformly, with
/// probability `prob`. All keys share the sigmas.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandGaussianSmooth};
/// let peak = tiny::line([0.0, 0.0, 1.0, 0.0, 0.0]);
/// let values = tiny::apply(RandGaussianSmooth::new("image").prob(1.0), peak)?.to_vec();
/// assert!(values[2] < 1.0 && values[1] > 0.0);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandGaussianSmooth {
    keys: Keys,
    #[serde(default = "sigmas")]
    sigma_x: [f64; 2],
    #[serde(default = "sigmas")]
    sigma_y: [f64; 2],
    #[serde(default = "sigmas")]
    sigma_z: [f64; 2],
    #[serde(default)]
    approx: GaussianApprox,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn sigmas() -> [f64; 2] {
    [0.25, 1.5]
}

impl RandGaussianSmooth {
    /// Creates the transform: sigmas from 0.25 to 1.5, with probability 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandGaussianSmooth {
            keys: keys.into(),
            sigma_x: sigmas(),
            sigma_y: sigmas(),
            sigma_z: sigmas(),
            approx: GaussianApprox::default(),
            prob: tenth(),
            allow_missing_keys: false,
        }
    }

    fn draw(&self, draw: &Draw, _: &[&Image]) -> Result<[f64; 3], TransformError> {
        Ok([self.sigma_x, self.sigma_y, self.sigma_z].map(|[low, high]| draw.between(low, high)))
    }

    fn change(&self, image: Image, sigma: &[f64; 3], _: usize) -> Result<Image, TransformError> {
        let n = image.meta.spatial_dims;
        smooth(image, &OneOrMany::Many(sigma[..n].to_vec()), self.approx)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        for (name, range) in [("sigma_x", self.sigma_x), ("sigma_y", self.sigma_y), ("sigma_z", self.sigma_z)] {
            check_sigmas(name, range)?;
        }
        Ok(())
    }
}

/// Checks a range of sigmas: from 0 (which leaves the axis unchanged) to a larger value.
pub(super) fn check_sigmas(parameter: &str, range: [f64; 2]) -> Result<(), Fault> {
    check_pair(parameter, range, 0.0, f64::INFINITY)?;
    if range[1] > 0.0 { Ok(()) } else { Err(Fault::at(parameter, "must reach beyond 0")) }
}

setters!(RandGaussianSmooth {
    /// Range of the sigma along the first axis, in voxels.
    sigma_x: [f64; 2],
    /// Range of the sigma along the second axis, in voxels.
    sigma_y: [f64; 2],
    /// Range of the sigma along the third axis, in voxels, if there is one.
    sigma_z: [f64; 2],
    /// How the Gaussian is discretized.
    approx: GaussianApprox,
    /// Probability that the transform is applied.
    prob: f64,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

random_image_transform!(RandGaussianSmooth);

transform_entry!(
    RandGaussianSmooth,
    r#"keys = ["image"]
prob = 0.5
sigma_x = [0.5, 1.5]"#
);
