use std::collections::BTreeSet;

use burn::tensor::{Device, Tensor, TensorData};
use hearth_image::spatial::{GridMode, GridPadding, GridSampling, ResizeMode, deform};
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::affine_ranges::Span;
use crate::params::{Keys, check_probability};
use crate::transform::{Transform, describe};
use crate::transforms::intensity::{FieldParameters, SmoothField};
use crate::transforms::rand_flip::tenth;
use crate::{Draw, Effect, Sample};

/// Deforms by a smooth random field of shifts, with probability `prob`, in the same way for all keys.
///
/// The field has `rand_size` random shifts along each axis, drawn uniformly from `def_range` (a number
/// a means -a..a) with a border of `pad` zeros; 2 is the length of the image. It is interpolated by
/// `field_mode` over the image and scaled to the range of the shifts. `spatial_size`, if given, must be
/// the size of the image. As in MONAI, positions are those of centres of corner voxels even if
/// `grid_align_corners` is false, so that the image is magnified a little about its centre. It cannot be
/// inverted.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandSmoothDeform};
/// let image = tiny::ramp([1, 8, 8, 8]);
/// let step = RandSmoothDeform::new("image", 3).def_range(0.5).prob(1.0);
/// let deformed = tiny::apply(step, image.clone())?;
/// assert!(deformed.shape() == image.shape() && deformed.to_vec() != image.to_vec());
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandSmoothDeform {
    keys: Keys,
    #[serde(default)]
    spatial_size: Option<OneOrMany<i64>>,
    /// Number of random shifts along each axis, one or per axis.
    rand_size: OneOrMany<usize>,
    #[serde(default)]
    pad: usize,
    #[serde(default)]
    field_mode: OneOrMany<ResizeMode>,
    #[serde(default)]
    align_corners: bool,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default = "one")]
    def_range: Span,
    #[serde(default = "nearest")]
    grid_mode: OneOrMany<GridMode>,
    #[serde(default)]
    grid_padding_mode: OneOrMany<GridPadding>,
    #[serde(default)]
    grid_align_corners: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn one() -> Span {
    Span::Half(1.0)
}

fn nearest() -> OneOrMany<GridMode> {
    OneOrMany::One(GridMode::Nearest)
}

impl RandSmoothDeform {
    /// Creates the transform: shifts up to half of the image, by the nearest voxel, with probability
    /// 0.1.
    pub fn new(keys: impl Into<Keys>, rand_size: impl Into<OneOrMany<usize>>) -> Self {
        RandSmoothDeform {
            keys: keys.into(),
            spatial_size: None,
            rand_size: rand_size.into(),
            pad: 0,
            field_mode: OneOrMany::default(),
            align_corners: false,
            prob: tenth(),
            def_range: one(),
            grid_mode: nearest(),
            grid_padding_mode: OneOrMany::default(),
            grid_align_corners: false,
            allow_missing_keys: false,
        }
    }

    fn parameters(&self) -> FieldParameters<'_> {
        let (spatial_size, rand_size) = (self.spatial_size.as_ref(), &self.rand_size);
        FieldParameters { spatial_size, rand_size, pad: self.pad, pad_val: 0.0 }
    }

    fn range(&self) -> (f64, f64) {
        let (a, b) = self.def_range.ends();
        (a.min(b), a.max(b))
    }

    /// Deforms one image by a field with a channel for each axis; `place` is the index of its key.
    ///
    /// # Errors
    /// Those of [`deform`].
    pub fn deform(&self, image: Image, field: &SmoothField, place: usize) -> Result<Image, TransformError> {
        let (shape, n, device) = (image.shape(), image.meta.spatial_dims, image.data.device());
        let mode = self.field_mode.at(place).unwrap_or_default();
        let field = field.over(shape, mode, self.align_corners, &device);
        let places = (0..3).map(|axis| {
            if axis >= n {
                return Tensor::zeros([1, shape[0], shape[1], shape[2]], &device);
            }
            let at = field.clone().narrow(0, axis, 1) + centres(shape, axis, &device) + 1.0;
            let length = shape[axis] as f32;
            match self.grid_align_corners {
                true => at * ((length - 1.0) / 2.0),
                false => (at * length - 1.0) / 2.0,
            }
        });
        let sampling = GridSampling::of_key(place, &self.grid_mode, &self.grid_padding_mode, self.grid_align_corners);
        deform(image, Tensor::cat(places.collect(), 0), sampling)
    }
}

/// The positions of the voxels along an axis, from -1 to 1 (-1 for a single voxel).
fn centres(shape: [usize; 3], axis: usize, device: &Device) -> Tensor<4> {
    let n = shape[axis];
    let line: Vec<f32> = (0..n).map(|i| 2.0 * i as f32 / (n.max(2) - 1) as f32 - 1.0).collect();
    let mut along = [1; 4];
    along[axis + 1] = n;
    Tensor::from_data(TensorData::new(line, along), device)
}

setters!(RandSmoothDeform {
    /// Size of the image in voxels, which it must have.
    spatial_size: Option<OneOrMany<i64>>,
    /// Width of the border of zeros around the random shifts.
    pad: usize,
    /// Interpolation of the field, one or per key.
    field_mode: OneOrMany<ResizeMode>,
    /// Whether the outermost shifts are at the centres of the corner voxels.
    align_corners: bool,
    /// Probability that the transform is applied.
    prob: f64,
    /// Range of the shifts; 2 is the length of the image.
    def_range: Span,
    /// Interpolation of the image, one or per key.
    grid_mode: OneOrMany<GridMode>,
    /// How the outside of the image is filled, one or per key.
    grid_padding_mode: OneOrMany<GridPadding>,
    /// Whether positions -1 and 1 are the centres of the corner voxels of the image.
    grid_align_corners: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandSmoothDeform {
    fn name(&self) -> &'static str {
        "RandSmoothDeform"
    }

    fn is_random(&self) -> bool {
        true
    }

    fn effect(&self) -> Effect {
        Effect::Moves
    }

    fn apply(&self, mut sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        let keys = self.keys.of(&sample, self.allow_missing_keys);
        let happens = draw.happens(self.prob);
        let Some((_, first)) = keys.first().filter(|_| happens) else { return Ok(vec![sample]) };
        let field = self.parameters().draw(draw, sample.image(first)?, true, self.range())?;
        for (place, key) in keys {
            sample.update(key, |image| self.deform(image, &field, place))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        self.keys.check_list("field_mode", &self.field_mode)?;
        self.keys.check_list("grid_mode", &self.grid_mode)?;
        self.keys.check_list("grid_padding_mode", &self.grid_padding_mode)?;
        check_probability(self.prob)?;
        self.parameters().check("def_range", self.range())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    RandSmoothDeform,
    r#"keys = ["image", "label"]
rand_size = 4
pad = 1
field_mode = "trilinear"
def_range = 0.1
grid_mode = ["bilinear", "nearest"]
prob = 0.5"#
);
