use hearth_image::{Image, OneOrMany, TransformError};
use hearth_kernels::filter::{self, Approximation, TRUNCATED};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::padding::failed;
use super::ranges::check_positive;
use crate::params::Keys;

/// A method that discretizes a Gaussian; MONAI's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GaussianApprox {
    /// The integral over each voxel.
    #[default]
    Erf,
    /// The value at the centre of each voxel.
    Sampled,
    /// The discrete Gaussian of scale-space theory.
    Scalespace,
}

impl From<GaussianApprox> for Approximation {
    fn from(approx: GaussianApprox) -> Self {
        match approx {
            GaussianApprox::Erf => Approximation::Erf,
            GaussianApprox::Sampled => Approximation::Sampled,
            GaussianApprox::Scalespace => Approximation::Scalespace,
        }
    }
}

/// Smooths by a Gaussian of `sigma` voxels, one number or one per spatial axis, truncated at four
/// sigmas; the outside of the image is 0.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::GaussianSmooth};
/// let peak = tiny::line([0.0, 0.0, 1.0, 0.0, 0.0]);
/// let values = tiny::apply(GaussianSmooth::new("image").sigma(0.5), peak)?.to_vec();
/// assert!(values[2] < 1.0 && values[1] > 0.0);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GaussianSmooth {
    keys: Keys,
    #[serde(default = "one")]
    sigma: OneOrMany<f64>,
    #[serde(default)]
    approx: GaussianApprox,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn one() -> OneOrMany<f64> {
    OneOrMany::One(1.0)
}

impl GaussianSmooth {
    /// Creates the transform: a sigma of one voxel.
    pub fn new(keys: impl Into<Keys>) -> Self {
        GaussianSmooth { keys: keys.into(), sigma: one(), approx: GaussianApprox::default(), allow_missing_keys: false }
    }

    /// Smooths one image.
    ///
    /// # Errors
    /// If a list of sigmas does not have one entry per spatial axis, or a sigma is negative or not
    /// finite.
    pub fn smooth(&self, image: Image) -> Result<Image, TransformError> {
        smooth(image, &self.sigma, self.approx)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_sigma("sigma", &self.sigma)
    }
}

/// Applies [`GaussianSmooth`] with given sigmas.
pub(super) fn smooth(
    mut image: Image,
    sigma: &OneOrMany<f64>,
    approx: GaussianApprox,
) -> Result<Image, TransformError> {
    let n = image.meta.spatial_dims;
    if let OneOrMany::Many(sigmas) = sigma
        && sigmas.len() != n
    {
        return Err(TransformError::new(format!("sigma has {} entries", sigmas.len())).expected(format!("one, or {n}")));
    }
    let each = std::array::from_fn(|axis| if axis < n { sigma.at(axis).unwrap_or(0.0) } else { 0.0 });
    image.data = filter::gaussian(image.data, each, TRUNCATED, approx.into()).map_err(failed)?;
    Ok(image)
}

/// Checks for one to three sigmas, each larger than 0.
pub(super) fn check_sigma(parameter: &str, sigma: &OneOrMany<f64>) -> Result<(), Fault> {
    match sigma.as_slice().len() {
        1..=3 => sigma.as_slice().iter().try_for_each(|v| check_positive(parameter, *v)),
        n => Err(Fault::at(parameter, format!("has {n} entries; give one, or one per spatial axis"))),
    }
}

setters!(GaussianSmooth {
    /// Standard deviation in voxels, one or one per axis.
    sigma: OneOrMany<f64>,
    /// How the Gaussian is discretized.
    approx: GaussianApprox,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(GaussianSmooth, smooth);

transform_entry!(
    GaussianSmooth,
    r#"keys = ["image"]
sigma = 1.0"#
);
