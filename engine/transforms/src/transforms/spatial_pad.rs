use hearth_image::spatial::{PadMode, pad};
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::intensity::check_finite;
use crate::params::{Keys, resolve_size};

/// The sides on which voxels are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PadMethod {
    /// Both sides; the smaller half before.
    #[default]
    Symmetric,
    /// The end only.
    End,
}

impl PadMethod {
    /// Returns the numbers of voxels added before and after, for a total number.
    pub fn sides(self, missing: [usize; 3]) -> ([usize; 3], [usize; 3]) {
        let before = match self {
            PadMethod::Symmetric => missing.map(|m| m / 2),
            PadMethod::End => [0; 3],
        };
        (before, std::array::from_fn(|a| missing[a] - before[a]))
    }
}

/// Pads to at least `spatial_size` voxels per axis; an entry that is not positive keeps that axis.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::SpatialPad};
/// let image = tiny::apply(SpatialPad::new("image", [4, 0, 0]), tiny::line([1.0, 2.0]))?;
/// assert_eq!(image.to_vec(), [0.0, 1.0, 2.0, 0.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpatialPad {
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

impl SpatialPad {
    /// Creates the transform: pads with zeros, on both sides.
    pub fn new(keys: impl Into<Keys>, spatial_size: impl Into<OneOrMany<i64>>) -> Self {
        SpatialPad {
            keys: keys.into(),
            spatial_size: spatial_size.into(),
            method: PadMethod::default(),
            mode: OneOrMany::default(),
            value: 0.0,
            allow_missing_keys: false,
        }
    }

    /// Pads one image; `place` is the index of its key.
    ///
    /// # Errors
    /// If `spatial_size` has too few axes, or the result would be too large.
    pub fn pad(&self, image: Image, place: usize) -> Result<Image, TransformError> {
        let size = resolve_size(&self.spatial_size, image.shape(), image.meta.spatial_dims)?;
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

/// Pads to at least this many voxels per axis.
pub(super) fn pad_to_size(
    image: Image,
    size: [usize; 3],
    method: PadMethod,
    mode: PadMode,
    value: f32,
) -> Result<Image, TransformError> {
    let shape = image.shape();
    let missing: [usize; 3] = std::array::from_fn(|a| size[a].saturating_sub(shape[a]));
    let before = match method {
        PadMethod::Symmetric => missing.map(|m| m / 2),
        PadMethod::End => [0; 3],
    };
    let after = std::array::from_fn(|a| missing[a] - before[a]);
    pad(image, before, after, mode, value)
}

setters!(SpatialPad {
    /// Sides to pad.
    method: PadMethod,
    /// How added voxels are filled, one or per key.
    mode: OneOrMany<PadMode>,
    /// The constant of [`PadMode::Constant`].
    value: f32,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

per_image!(SpatialPad { apply: pad, lazy: true, check: check_parameters, through_host: Self::looks_at_all });

transform_entry!(
    SpatialPad,
    r#"keys = ["image"]
spatial_size = [20, 20, 20]"#
);
