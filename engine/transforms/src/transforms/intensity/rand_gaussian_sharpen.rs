use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::gaussian_sharpen::sharpen;
use super::gaussian_smooth::GaussianApprox;
use super::rand_gaussian_smooth::check_sigmas;
use super::ranges::check_pair;
use crate::Draw;
use crate::params::Keys;
use crate::transforms::rand_flip::tenth;

/// Applies [`GaussianSharpen`](super::GaussianSharpen) with sigmas and alpha drawn uniformly, with
/// probability `prob`.
///
/// A single number for a `sigma2` means the range from it to the first sigma of the axis. All keys
/// share the draws.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandGaussianSharpen};
/// let edge = tiny::line([0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
/// let values = tiny::apply(RandGaussianSharpen::new("image").prob(1.0), edge)?.to_vec();
/// assert!(values[3] - values[2] > 1.0);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandGaussianSharpen {
    keys: Keys,
    #[serde(default = "first")]
    sigma1_x: [f64; 2],
    #[serde(default = "first")]
    sigma1_y: [f64; 2],
    #[serde(default = "first")]
    sigma1_z: [f64; 2],
    #[serde(default = "second")]
    sigma2_x: OneOrMany<f64>,
    #[serde(default = "second")]
    sigma2_y: OneOrMany<f64>,
    #[serde(default = "second")]
    sigma2_z: OneOrMany<f64>,
    #[serde(default = "alphas")]
    alpha: [f64; 2],
    #[serde(default)]
    approx: GaussianApprox,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn first() -> [f64; 2] {
    [0.5, 1.0]
}

fn second() -> OneOrMany<f64> {
    OneOrMany::One(0.5)
}

fn alphas() -> [f64; 2] {
    [10.0, 30.0]
}

/// The drawn parameters.
struct Drawn {
    sigma1: [f64; 3],
    sigma2: [f64; 3],
    alpha: f64,
}

impl RandGaussianSharpen {
    /// Creates the transform: first sigmas from 0.5 to 1, second ones from 0.5 to the first, alpha
    /// from 10 to 30, with probability 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandGaussianSharpen {
            keys: keys.into(),
            sigma1_x: first(),
            sigma1_y: first(),
            sigma1_z: first(),
            sigma2_x: second(),
            sigma2_y: second(),
            sigma2_z: second(),
            alpha: alphas(),
            approx: GaussianApprox::default(),
            prob: tenth(),
            allow_missing_keys: false,
        }
    }

    fn draw(&self, draw: &Draw, _: &[&Image]) -> Result<Drawn, TransformError> {
        let sigma1 = [self.sigma1_x, self.sigma1_y, self.sigma1_z].map(|[low, high]| draw.between(low, high));
        let second = [&self.sigma2_x, &self.sigma2_y, &self.sigma2_z];
        let sigma2 = std::array::from_fn(|axis| match second[axis].as_slice() {
            [low, high] => draw.between(*low, *high),
            one => draw.between(one.first().copied().unwrap_or(0.5), sigma1[axis]),
        });
        Ok(Drawn { sigma1, sigma2, alpha: draw.between(self.alpha[0], self.alpha[1]) })
    }

    fn change(&self, image: Image, drawn: &Drawn, _: usize) -> Result<Image, TransformError> {
        let n = image.meta.spatial_dims;
        let each = |sigma: &[f64; 3]| OneOrMany::Many(sigma[..n].to_vec());
        sharpen(image, &each(&drawn.sigma1), &each(&drawn.sigma2), drawn.alpha, self.approx)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        for (name, first, second) in [
            ("x", self.sigma1_x, &self.sigma2_x),
            ("y", self.sigma1_y, &self.sigma2_y),
            ("z", self.sigma1_z, &self.sigma2_z),
        ] {
            check_sigmas(&format!("sigma1_{name}"), first)?;
            let parameter = format!("sigma2_{name}");
            match second.as_slice() {
                [low, high] => check_sigmas(&parameter, [*low, *high])?,
                // The number may be larger than a first sigma: the range is then reversed, as in
                // MONAI.
                [one] => check_sigmas(&parameter, [*one, one.max(first[1])])?,
                _ => return Err(Fault::at(&parameter, "must be one number or a pair")),
            }
        }
        check_pair("alpha", self.alpha, f64::NEG_INFINITY, f64::INFINITY)
    }
}

setters!(RandGaussianSharpen {
    /// Range of the first sigma along the first axis.
    sigma1_x: [f64; 2],
    /// Range of the first sigma along the second axis.
    sigma1_y: [f64; 2],
    /// Range of the first sigma along the third axis, if there is one.
    sigma1_z: [f64; 2],
    /// Range of the second sigma along the first axis, or its lower end.
    sigma2_x: OneOrMany<f64>,
    /// Range of the second sigma along the second axis, or its lower end.
    sigma2_y: OneOrMany<f64>,
    /// Range of the second sigma along the third axis, or its lower end.
    sigma2_z: OneOrMany<f64>,
    /// Range of alpha.
    alpha: [f64; 2],
    /// How the Gaussians are discretized.
    approx: GaussianApprox,
    /// Probability that the transform is applied.
    prob: f64,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

random_image_transform!(RandGaussianSharpen);

transform_entry!(
    RandGaussianSharpen,
    r#"keys = ["image"]
prob = 0.5"#
);
