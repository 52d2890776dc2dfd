use hearth_image::spatial::PadMode;
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PadMethod;
use super::intensity::check_finite;
use super::spatial_pad::pad_to_size;
use crate::params::{Keys, per_axis};

/// Pads each axis to the next multiple of `k`, one number or one per axis; 0 or less keeps an axis.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::DivisiblePad};
/// let image = tiny::apply(DivisiblePad::new("image", [2, 1, 1]), tiny::line([1.0, 2.0, 3.0]))?;
/// assert_eq!(image.to_vec(), [1.0, 2.0, 3.0, 0.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DivisiblePad {
    keys: Keys,
    /// Divisor of each axis, one or per axis.
    k: OneOrMany<i64>,
    #[serde(default)]
    mode: OneOrMany<PadMode>,
    #[serde(default)]
    method: PadMethod,
    #[serde(default, alias = "constant_values")]
    value: f32,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl DivisiblePad {
    /// Creates the transform: pads with zeros, on both sides.
    pub fn new(keys: impl Into<Keys>, k: impl Into<OneOrMany<i64>>) -> Self {
        DivisiblePad {
            keys: keys.into(),
            k: k.into(),
            mode: OneOrMany::default(),
            method: PadMethod::default(),
            value: 0.0,
            allow_missing_keys: false,
        }
    }

    /// Pads one image; `place` is the index of its key.
    ///
    /// # Errors
    /// If `k` has another number of entries than the image has axes, or the result would be too
    /// large.
    pub fn pad(&self, image: Image, place: usize) -> Result<Image, TransformError> {
        let shape = image.shape();
        let k = per_axis("k", &self.k, image.meta.spatial_dims, 1)?;
        let size = std::array::from_fn(|a| match usize::try_from(k[a]) {
            Ok(k @ 1..) => shape[a].div_ceil(k).saturating_mul(k),
            _ => shape[a],
        });
        pad_to_size(image, size, self.method, self.mode.at(place).unwrap_or_default(), self.value)
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

setters!(DivisiblePad {
    /// How added voxels are filled, one or per key.
    mode: OneOrMany<PadMode>,
    /// Sides to pad.
    method: PadMethod,
    /// The constant of [`PadMode::Constant`].
    value: f32,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

per_image!(DivisiblePad { apply: pad, lazy: true, check: check_parameters, through_host: Self::looks_at_all });

transform_entry!(
    DivisiblePad,
    r#"keys = ["image"]
k = 16"#
);
