use std::collections::BTreeSet;

use burn::tensor::{Tensor, TensorData};
use hearth_image::spatial::{AffineParameters, GridMode, GridPadding, GridSampling, check_grid, displaced};
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_kernels::filter::{Approximation, gaussian};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::affine::reflection;
use super::affine_ranges::{AffineRanges, Spans};
use super::elastic::{self, affine_part, check_range, deform_all};
use crate::params::{Keys, check_probability};
use crate::transform::{Transform, describe};
use crate::transforms::rand_flip::tenth;
use crate::{Draw, Effect, Sample};

/// Deforms a 3-D image elastically, followed by an affine transform as in
/// [`RandAffine`](super::RandAffine), with probability `prob`, in the same way for all keys.
///
/// Each voxel is moved by a vector drawn uniformly from -1..1, smoothed by a Gaussian with a
/// standard deviation from `sigma_range` (voxels), times a number from `magnitude_range`. The
/// probability is drawn first, then magnitude, sigma, and the parameters with affine ranges.
/// `spatial_size` is the size of the result, about the same centre; the change of size can be
/// inverted, the deformation cannot.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::Rand3DElastic};
/// let image = tiny::ramp([1, 8, 8, 8]);
/// let step = Rand3DElastic::new("image", [1.0, 2.0], [5.0, 6.0]).prob(1.0);
/// let deformed = tiny::apply(step, image.clone())?;
/// assert!(deformed.shape() == image.shape() && deformed.to_vec() != image.to_vec());
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rand3DElastic {
    keys: Keys,
    /// Smallest and largest standard deviation of the Gaussian that smooths the shifts, in voxels.
    sigma_range: [f64; 2],
    /// Smallest and largest factor of the smoothed shifts.
    magnitude_range: [f64; 2],
    #[serde(default)]
    spatial_size: OneOrMany<i64>,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    rotate_range: Spans,
    #[serde(default)]
    shear_range: Spans,
    #[serde(default)]
    translate_range: Spans,
    #[serde(default)]
    scale_range: Spans,
    #[serde(default)]
    mode: OneOrMany<GridMode>,
    #[serde(default = "reflection")]
    padding_mode: OneOrMany<GridPadding>,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// The truncation of the Gaussian, in standard deviations.
const TRUNCATED: f64 = 3.0;

/// The draw of a 3-D elastic deformation.
#[derive(Clone, Debug)]
pub struct Elastic3D {
    /// A vector per voxel of the result, before smoothing: `[3, X, Y, Z]`.
    pub offset: Tensor<4>,
    /// Factor of the smoothed vectors.
    pub magnitude: f64,
    /// Standard deviation of the Gaussian, in voxels.
    pub sigma: f64,
    /// Affine part after the deformation.
    pub affine: AffineParameters,
}

impl Elastic3D {
    /// Returns the positions that are read in an image of this shape: `[3, X, Y, Z]`.
    ///
    /// # Errors
    /// If sigma is negative, or the affine part cannot be inverted.
    pub fn places(&self, shape: [usize; 3]) -> Result<Tensor<4>, TransformError> {
        let [_, x, y, z] = self.offset.dims();
        let how = affine_part(&self.affine, shape, [x, y, z], 3)?;
        let field = gaussian(self.offset.clone(), [self.sigma; 3], TRUNCATED, Approximation::Erf)
            .map_err(|e| TransformError::new(e.to_string()))?;
        Ok(displaced(field, self.magnitude, &how))
    }
}

impl Rand3DElastic {
    /// Creates the transform: linear, with reflecting padding, and probability 0.1.
    pub fn new(keys: impl Into<Keys>, sigma_range: [f64; 2], magnitude_range: [f64; 2]) -> Self {
        Rand3DElastic {
            keys: keys.into(),
            sigma_range,
            magnitude_range,
            spatial_size: OneOrMany::default(),
            prob: tenth(),
            rotate_range: Spans::default(),
            shear_range: Spans::default(),
            translate_range: Spans::default(),
            scale_range: Spans::default(),
            mode: OneOrMany::default(),
            padding_mode: reflection(),
            allow_missing_keys: false,
        }
    }

    /// Deforms one image by a draw; `place` is the index of its key.
    ///
    /// # Errors
    /// If the image is not 3-D, and those of [`Elastic3D::places`].
    pub fn deform(&self, image: Image, drawn: &Elastic3D, place: usize) -> Result<Image, TransformError> {
        only_3d(&image)?;
        let places = drawn.places(image.shape())?;
        hearth_image::spatial::deform(image, places, self.sampling(place))
    }

    fn sampling(&self, place: usize) -> GridSampling {
        GridSampling::of_key(place, &self.mode, &self.padding_mode, false)
    }

    fn ranges(&self) -> AffineRanges<'_> {
        AffineRanges {
            rotate_range: &self.rotate_range,
            shear_range: &self.shear_range,
            translate_range: &self.translate_range,
            scale_range: &self.scale_range,
        }
    }
}

fn only_3d(image: &Image) -> Result<(), TransformError> {
    if image.meta.spatial_dims == 3 {
        return Ok(());
    }
    Err(TransformError::new("the image is 2-D").expected("a 3-D image").advice("use Rand2DElastic"))
}

setters!(Rand3DElastic {
    /// Size of the result in voxels; an entry that is not positive keeps that axis.
    spatial_size: OneOrMany<i64>,
    /// Probability that the transform is applied.
    prob: f64,
    /// Ranges of the angles, in radians.
    rotate_range: Spans,
    /// Ranges of the factors of shear.
    shear_range: Spans,
    /// Ranges of the shift, in voxels.
    translate_range: Spans,
    /// Ranges of the values added to the factors 1.
    scale_range: Spans,
    /// Interpolation, one or per key.
    mode: OneOrMany<GridMode>,
    /// How the outside is filled, one or per key.
    padding_mode: OneOrMany<GridPadding>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for Rand3DElastic {
    fn name(&self) -> &'static str {
        "Rand3DElastic"
    }

    fn is_random(&self) -> bool {
        true
    }

    fn effect(&self) -> Effect {
        Effect::sizing("spatial_size", self.spatial_size.as_slice())
    }

    fn apply(&self, mut sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        let happens = draw.happens(self.prob);
        let magnitude = draw.between(self.magnitude_range[0], self.magnitude_range[1]);
        let sigma = draw.between(self.sigma_range[0], self.sigma_range[1]);
        let affine = self.ranges().draw(draw);
        let places = happens.then_some(|image: &Image, size: [usize; 3]| {
            only_3d(image)?;
            check_grid(3, size)?;
            let mut offset = vec![0.0; 3 * size.iter().product::<usize>()];
            draw.fill_uniform(&mut offset, -1.0, 1.0);
            let offset = TensorData::new(offset, [3, size[0], size[1], size[2]]);
            let offset = Tensor::from_data(offset, &image.data.device());
            Elastic3D { offset, magnitude, sigma, affine: affine.clone() }.places(image.shape())
        });
        let keys = self.keys.of(&sample, self.allow_missing_keys);
        deform_all(&mut sample, &keys, &self.spatial_size, |place| self.sampling(place), places)?;
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_probability(self.prob)?;
        check_range("sigma_range", self.sigma_range, 0.0)?;
        elastic::check(&self.keys, &self.mode, &self.padding_mode, self.magnitude_range, &self.ranges())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    Rand3DElastic,
    r#"keys = ["image"]
sigma_range = [3.0, 5.0]
magnitude_range = [10.0, 50.0]
prob = 0.5
mode = "bilinear""#
);
