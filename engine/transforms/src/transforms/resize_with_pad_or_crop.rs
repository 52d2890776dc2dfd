use hearth_image::spatial::PadMode;
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PadMethod;
use super::center_spatial_crop::center_crop;
use super::intensity::check_finite;
use super::spatial_pad::pad_to_size;
use crate::Effect;
use crate::params::{Keys, resolve_size};

/// Crops axes that are longer than `spatial_size` about the centre, and pads shorter ones; 0 or
/// less keeps an axis.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::ResizeWithPadOrCrop};
/// let image = tiny::apply(ResizeWithPadOrCrop::new("image", [4, 0, 0]), tiny::line([1.0, 2.0]))?;
/// assert_eq!(image.to_vec(), [0.0, 1.0, 2.0, 0.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResizeWithPadOrCrop {
    keys: Keys,
    spatial_size: OneOrMany<i64>,
    #[serde(default)]
    method: PadMethod,
    #[serde(default)]
    mode: OneOrMany<PadMode>,
    #[serde(default, alias = "constant_values")]
    value: f32,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl ResizeWithPadOrCrop {
    /// Creates the transform: pads with zeros, on both sides.
    pub fn new(keys: impl Into<Keys>, spatial_size: impl Into<OneOrMany<i64>>) -> Self {
        ResizeWithPadOrCrop {
            keys: keys.into(),
            spatial_size: spatial_size.into(),
            method: PadMethod::default(),
            mode: OneOrMany::default(),
            value: 0.0,
            allow_missing_keys: false,
        }
    }

    /// Crops and pads one image; `place` is the index of its key.
    ///
    /// # Errors
    /// If `spatial_size` has too few axes, or the result would be too large.
    pub fn resize(&self, image: Image, place: usize) -> Result<Image, TransformError> {
        let size = resolve_size(&self.spatial_size, image.shape(), image.meta.spatial_dims)?;
        pad_to_size(center_crop(image, size), size, self.method, self.mode.at(place).unwrap_or_default(), self.value)
    }

    /// Statistics of whole lines are computed on the host.
    fn looks_at_all(&self) -> bool {
        self.mode.as_slice().iter().any(|mode| mode.looks_at_all())
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_finite("value", f64::from(self.value))?;
        self.keys.check_list("mode", &self.mode)
    }
}

setters!(ResizeWithPadOrCrop {
    /// Sides on which voxels are added.
    method: PadMethod,
    /// How added voxels are filled, one or per key.
    mode: OneOrMany<PadMode>,
    /// The constant of [`PadMode::Constant`].
    value: f32,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl ResizeWithPadOrCrop {
    fn of_grid(&self) -> Effect {
        Effect::sizing("spatial_size", self.spatial_size.as_slice())
    }
}

per_image!(ResizeWithPadOrCrop {
    apply: resize,
    lazy: true,
    check: check_parameters,
    effect: of_grid,
    through_host: Self::looks_at_all
});

transform_entry!(
    ResizeWithPadOrCrop,
    r#"keys = ["image", "label"]
spatial_size = [20, 12, 16]"#
);
