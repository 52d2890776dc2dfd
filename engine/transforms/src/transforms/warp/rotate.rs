use std::collections::BTreeSet;

use hearth_image::spatial::{GridMode, GridPadding, GridSampling, RotateOrder, Warp, warp};
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::affine::check_numbers;
use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Rotates about the centre of the image by `angle` radians: one angle in 2-D, three in 3-D (one
/// number applies to all three), about the axes of `rotate_order`.
///
/// Without `keep_size` the result is large enough to hold the whole image.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::Rotate};
/// let step = Rotate::new("image", [0.0, 0.0, std::f64::consts::FRAC_PI_2]);
/// let image = tiny::apply(step, tiny::ramp([1, 3, 3, 1]))?;
/// // The centre stays, a corner comes from another.
/// assert!((image.to_vec()[4] - 4.0).abs() < 1e-3 && (image.to_vec()[0] - 0.0).abs() > 1.0);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rotate {
    keys: Keys,
    /// Angles in radians: one in 2-D, one per axis in 3-D.
    angle: OneOrMany<f64>,
    #[serde(default = "yes")]
    keep_size: bool,
    #[serde(default)]
    mode: OneOrMany<GridMode>,
    #[serde(default)]
    padding_mode: OneOrMany<GridPadding>,
    #[serde(default)]
    align_corners: OneOrMany<bool>,
    #[serde(default)]
    rotate_order: RotateOrder,
    #[serde(default)]
    allow_missing_keys: bool,
}

pub(super) fn yes() -> bool {
    true
}

impl Rotate {
    /// Creates the transform: linear, keeping the size.
    pub fn new(keys: impl Into<Keys>, angle: impl Into<OneOrMany<f64>>) -> Self {
        Rotate {
            keys: keys.into(),
            angle: angle.into(),
            keep_size: true,
            mode: OneOrMany::default(),
            padding_mode: OneOrMany::default(),
            align_corners: OneOrMany::default(),
            rotate_order: RotateOrder::default(),
            allow_missing_keys: false,
        }
    }

    /// Rotates one image; `place` is the index of its key.
    ///
    /// # Errors
    /// If the number of angles is wrong for the image.
    pub fn rotate(&self, image: Image, place: usize) -> Result<Image, TransformError> {
        let angles = match self.angle {
            OneOrMany::One(angle) if image.meta.spatial_dims == 3 => vec![angle; 3],
            _ => self.angle.as_slice().to_vec(),
        };
        let align_corners = self.align_corners.at(place).unwrap_or_default();
        let sampling = GridSampling::of_key(place, &self.mode, &self.padding_mode, align_corners);
        rotate(image, &angles, &self.rotate_order, self.keep_size, sampling)
    }
}

/// Rotates an image about its centre by one angle in 2-D, or three in 3-D.
///
/// # Errors
/// If the number of angles is wrong for the image, or one is not finite.
pub fn rotate(
    image: Image,
    angles: &[f64],
    order: &RotateOrder,
    keep_size: bool,
    sampling: GridSampling,
) -> Result<Image, TransformError> {
    let (shape, n) = (image.shape(), image.meta.spatial_dims);
    let how = Warp::rotation(angles, order, shape, n, keep_size, sampling.align_corners)?;
    warp(image, &how, sampling)
}

setters!(Rotate {
    /// Whether to keep the size instead of enlarging it to the whole image.
    keep_size: bool,
    /// Interpolation, one or per key.
    mode: OneOrMany<GridMode>,
    /// How the outside is filled, one or per key.
    padding_mode: OneOrMany<GridPadding>,
    /// Whether the ends of an axis are the centres of its first and last voxel, one or per key.
    align_corners: OneOrMany<bool>,
    /// Rotation axes of the angles.
    rotate_order: RotateOrder,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for Rotate {
    fn name(&self) -> &'static str {
        "Rotate"
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn effect(&self) -> Effect {
        Effect::keeping(self.keep_size)
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |image| self.rotate(image, place))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        self.keys.check_list("mode", &self.mode)?;
        self.keys.check_list("padding_mode", &self.padding_mode)?;
        self.keys.check_list("align_corners", &self.align_corners)?;
        check_numbers("angle", &self.angle, 3)?;
        match self.angle.as_slice().len() {
            1 | 3 => Ok(()),
            n => Err(Fault::at("angle", format!("has {n} angles; a 2-D image needs one, a 3-D image three"))),
        }
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    Rotate,
    r#"keys = ["image"]
angle = [0.0, 0.0, 0.3]"#
);
