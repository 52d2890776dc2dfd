use hearth_image::spatial::{self, PadMode};
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::intensity::check_finite;
use crate::params::Keys;

/// Adds a border of `spatial_border` voxels: one number for all sides, one per axis, or one per
/// side (before and after the first axis, then the second, ...). Negative ones count as 0.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::BorderPad};
/// let image = tiny::apply(BorderPad::new("image", [1, 0, 0]), tiny::line([1.0, 2.0]))?;
/// assert_eq!(image.to_vec(), [0.0, 1.0, 2.0, 0.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BorderPad {
    keys: Keys,
    /// Number of voxels on each side: one number for all sides, one per axis, or two per axis.
    spatial_border: OneOrMany<i64>,
    #[serde(default)]
    mode: OneOrMany<PadMode>,
    #[serde(default, alias = "constant_values")]
    value: f32,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl BorderPad {
    /// Creates the transform: pads with zeros.
    pub fn new(keys: impl Into<Keys>, spatial_border: impl Into<OneOrMany<i64>>) -> Self {
        BorderPad {
            keys: keys.into(),
            spatial_border: spatial_border.into(),
            mode: OneOrMany::default(),
            value: 0.0,
            allow_missing_keys: false,
        }
    }

    /// Pads one image; `place` is the index of its key.
    ///
    /// # Errors
    /// If `spatial_border` has a wrong number of entries, the mode has no voxels to copy, or the
    /// result would be too large.
    pub fn pad(&self, image: Image, place: usize) -> Result<Image, TransformError> {
        let n = image.meta.spatial_dims;
        let border = self.spatial_border.as_slice();
        let entry = |axis: usize, side: usize| match border.len() {
            1 => Some(border[0]),
            count if count == n => Some(border[axis]),
            count if count == 2 * n => Some(border[2 * axis + side]),
            _ => None,
        };
        let mut sides = [[0; 3]; 2];
        for (side, widths) in sides.iter_mut().enumerate() {
            for (axis, width) in widths.iter_mut().enumerate().take(n) {
                *width = entry(axis, side).map(|v| v.max(0) as usize).ok_or_else(|| {
                    TransformError::new(format!("`spatial_border` has {} entries", border.len()))
                        .expected(format!("1, {n} or {}", 2 * n))
                })?;
            }
        }
        spatial::pad(image, sides[0], sides[1], self.mode.at(place).unwrap_or_default(), self.value)
    }

    /// Statistics of whole lines are computed on the host.
    fn looks_at_all(&self) -> bool {
        self.mode.as_slice().iter().any(|mode| mode.looks_at_all())
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        if !matches!(self.spatial_border.as_slice().len(), 1..=4 | 6) {
            return Err(Fault::at("spatial_border", "must have one entry, one per axis, or two per axis"));
        }
        check_finite("value", f64::from(self.value))?;
        self.keys.check_list("mode", &self.mode)
    }
}

setters!(BorderPad {
    /// How added voxels are filled, one or per key.
    mode: OneOrMany<PadMode>,
    /// The constant of [`PadMode::Constant`].
    value: f32,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

per_image!(BorderPad { apply: pad, lazy: true, check: check_parameters, through_host: Self::looks_at_all });

transform_entry!(
    BorderPad,
    r#"keys = ["image"]
spatial_border = [2, 2, 0]"#
);
