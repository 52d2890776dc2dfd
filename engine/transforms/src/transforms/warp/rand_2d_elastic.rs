use std::collections::BTreeSet;

use burn::tensor::{Device, Tensor, TensorData};
use hearth_image::spatial::{AffineParameters, GridMode, GridPadding, GridSampling, check_grid};
use hearth_image::{Image, OneOrMany, TransformError, affine as matrices};
use hearth_kernels::{InterpolateMode, interpolate};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::affine::reflection;
use super::affine_ranges::{AffineRanges, Spans};
use super::elastic::{self, deform_all};
use crate::params::{Keys, check_probability};
use crate::transform::{Transform, describe};
use crate::transforms::rand_flip::tenth;
use crate::{Draw, Effect, Sample};

/// Deforms a 2-D image elastically, followed by an affine transform as in
/// [`RandAffine`](super::RandAffine), with probability `prob`, in the same way for all keys.
///
/// Control points `spacing` pixels apart (one number, or one per axis) are moved by normal vectors
/// times a number from `magnitude_range`; cubic interpolation fills the pixels between them. The
/// probability is drawn first, then the magnitude, then the parameters with affine ranges.
/// `spatial_size` is the size of the result, about the same centre; the change of size can be
/// inverted, the deformation cannot.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::Rand2DElastic};
/// let image = tiny::ramp([1, 8, 8, 1]).with_spatial_dims(2);
/// let step = Rand2DElastic::new("image", 4.0, [1.0, 2.0]).prob(1.0);
/// let deformed = tiny::apply(step, image.clone())?;
/// assert!(deformed.shape() == image.shape() && deformed.to_vec() != image.to_vec());
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rand2DElastic {
    keys: Keys,
    /// Distance between control points in pixels, one or per axis.
    spacing: OneOrMany<f64>,
    /// Smallest and largest shift of a control point in pixels.
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

/// The draw of a 2-D elastic deformation.
#[derive(Clone, Debug)]
pub struct Elastic2D {
    /// A vector per control point: all first entries, then all second ones,
    /// [`Rand2DElastic::control_points`] each.
    pub offset: Vec<f32>,
    /// Factor of the vectors.
    pub magnitude: f64,
    /// Affine part after the deformation.
    pub affine: AffineParameters,
}

impl Rand2DElastic {
    /// Creates the transform: linear, with reflecting padding, and probability 0.1.
    pub fn new(keys: impl Into<Keys>, spacing: impl Into<OneOrMany<f64>>, magnitude_range: [f64; 2]) -> Self {
        Rand2DElastic {
            keys: keys.into(),
            spacing: spacing.into(),
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

    /// Returns the number of control points per axis for a result of this size: enough for the
    /// size, and one more on either side.
    pub fn control_points(&self, size: [usize; 2]) -> [usize; 2] {
        std::array::from_fn(|axis| {
            // In f32, as in PyTorch.
            let steps = (size[axis] as f32 - 1.0) / (2.0 * self.step(axis)) as f32;
            let points =
                if size[axis].is_multiple_of(2) { (steps + 0.5).ceil() * 2.0 + 2.0 } else { steps.ceil() * 2.0 + 3.0 };
            points as usize
        })
    }

    /// Distance between control points in pixels; a number that is not positive counts as 1.
    fn step(&self, axis: usize) -> f64 {
        self.spacing.at(axis).filter(|s| *s > 0.0).unwrap_or(1.0)
    }

    /// Returns the positions that are read in an image of this shape for a result of this size:
    /// `[3, X, Y, 1]`.
    ///
    /// # Errors
    /// If the numbers of vectors and control points differ, or the grid between them would be too
    /// large.
    pub fn places(
        &self,
        drawn: &Elastic2D,
        shape: [usize; 3],
        size: [usize; 3],
        device: &Device,
    ) -> Result<Tensor<4>, TransformError> {
        let points = self.control_points([size[0], size[1]]);
        let count = points[0] * points[1];
        if drawn.offset.len() != 2 * count {
            return Err(TransformError::new(format!("{} numbers for the control points", drawn.offset.len()))
                .expected(format!("two for each of {} x {}", points[0], points[1])));
        }
        let fine: [usize; 2] = std::array::from_fn(|axis| (points[axis] as f64 * self.step(axis)).floor() as usize);
        check_grid(2, [fine[0], fine[1], 1])?;
        if (0..2).any(|axis| fine[axis] < size[axis]) {
            return Err(TransformError::new(format!("the control points cover only {fine:?} pixels"))
                .expected(format!("{:?}", &size[..2])));
        }
        let matrix = drawn.affine.matrix(2)?;
        let mut places = vec![0.0_f32; 2 * count];
        for i in 0..count {
            let at = [i / points[1], i % points[1]];
            let moved = std::array::from_fn(|axis| match at.get(axis) {
                Some(index) => {
                    (*index as f64 - (points[axis] as f64 - 1.0) / 2.0) * self.step(axis)
                        + drawn.magnitude * f64::from(drawn.offset[axis * count + i])
                }
                None => 0.0,
            });
            let place = matrices::apply(&matrix, moved);
            (places[i], places[count + i]) = (place[0] as f32, place[1] as f32);
        }
        let coarse = Tensor::<4>::from_data(TensorData::new(places, [2, points[0], points[1], 1]), device);
        let all = interpolate(coarse, [fine[0], fine[1], 1], InterpolateMode::Cubic, false);
        let [i, j]: [usize; 2] = std::array::from_fn(|axis| fine[axis] / 2 - size[axis] / 2);
        let about_centre = all.slice([0..2, i..i + size[0], j..j + size[1], 0..1]);
        // From the centre to voxels; PyTorch's sampler halves the length of an axis of one pixel.
        let row = |axis: usize| {
            let scale = if shape[axis] == 1 { 0.5 } else { 1.0 };
            about_centre.clone().narrow(0, axis, 1) * scale + (shape[axis] as f32 - 1.0) / 2.0
        };
        Ok(Tensor::cat(vec![row(0), row(1), Tensor::zeros([1, size[0], size[1], 1], device)], 0))
    }

    /// Deforms one image by a draw; `place` is the index of its key.
    ///
    /// # Errors
    /// If the image is not 2-D, and those of [`Rand2DElastic::places`].
    pub fn deform(&self, image: Image, drawn: &Elastic2D, place: usize) -> Result<Image, TransformError> {
        only_2d(&image)?;
        let size = crate::params::resolve_size(&self.spatial_size, image.shape(), 2)?;
        let places = self.places(drawn, image.shape(), size, &image.data.device())?;
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

fn only_2d(image: &Image) -> Result<(), TransformError> {
    if image.meta.spatial_dims == 2 {
        return Ok(());
    }
    Err(TransformError::new("the image is 3-D").expected("a 2-D image").advice("use Rand3DElastic"))
}

setters!(Rand2DElastic {
    /// Size of the result in voxels; an entry that is not positive keeps that axis.
    spatial_size: OneOrMany<i64>,
    /// Probability that the transform is applied.
    prob: f64,
    /// Ranges of the angles, in radians.
    rotate_range: Spans,
    /// Ranges of the factors of shear.
    shear_range: Spans,
    /// Ranges of the shift, in pixels.
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

impl Transform for Rand2DElastic {
    fn name(&self) -> &'static str {
        "Rand2DElastic"
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
        let affine = self.ranges().draw(draw);
        let places = happens.then_some(|image: &Image, size: [usize; 3]| {
            only_2d(image)?;
            check_grid(2, size)?;
            let points = self.control_points([size[0], size[1]]);
            check_grid(2, [points[0], points[1], 1])?;
            let mut offset = vec![0.0; 2 * points[0] * points[1]];
            draw.add_normal(&mut offset, 0.0, 1.0);
            let drawn = Elastic2D { offset, magnitude, affine: affine.clone() };
            self.places(&drawn, image.shape(), size, &image.data.device())
        });
        let keys = self.keys.of(&sample, self.allow_missing_keys);
        deform_all(&mut sample, &keys, &self.spatial_size, |place| self.sampling(place), places)?;
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_probability(self.prob)?;
        let steps = self.spacing.as_slice();
        if steps.is_empty() || steps.len() > 2 || steps.iter().any(|s| !s.is_finite()) {
            return Err(Fault::at("spacing", "must be one finite number of pixels, or two"));
        }
        elastic::check(&self.keys, &self.mode, &self.padding_mode, self.magnitude_range, &self.ranges())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    Rand2DElastic,
    r#"keys = ["rgb"]
spacing = [8, 8]
magnitude_range = [0.5, 1.5]
prob = 0.5"#
);
