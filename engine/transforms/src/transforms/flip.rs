use hearth_image::{Image, OneOrMany, TransformError, spatial};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rand_flip::resolve_axis;
use crate::Effect;
use crate::params::Keys;

/// Reverses `spatial_axis`: one, several, or by default all. Negative axes count from the
/// last.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::Flip};
/// let image = tiny::apply(Flip::new("image"), tiny::line([1.0, 2.0, 3.0]))?;
/// assert_eq!(image.to_vec(), [3.0, 2.0, 1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flip {
    keys: Keys,
    #[serde(default)]
    spatial_axis: Option<OneOrMany<i64>>,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl Flip {
    /// Creates the transform: reverses all axes.
    pub fn new(keys: impl Into<Keys>) -> Self {
        Flip { keys: keys.into(), spatial_axis: None, allow_missing_keys: false }
    }

    /// Flips one image.
    ///
    /// # Errors
    /// If it does not have an axis.
    pub fn flip(&self, image: Image, _place: usize) -> Result<Image, TransformError> {
        flip_along(image, self.spatial_axis.as_ref())
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_axes(self.spatial_axis.as_ref())
    }
}

/// Reverses these axes, or all.
pub(super) fn flip_along(image: Image, axes: Option<&OneOrMany<i64>>) -> Result<Image, TransformError> {
    let n = image.meta.spatial_dims;
    let axes = match axes {
        None => (0..n).collect::<Vec<_>>(),
        Some(axes) => axes.as_slice().iter().map(|a| resolve_axis(*a, n)).collect::<Result<_, _>>()?,
    };
    Ok(spatial::flip(image, &axes))
}

pub(super) fn check_axes(axes: Option<&OneOrMany<i64>>) -> Result<(), Fault> {
    for axis in axes.into_iter().flat_map(|a| a.as_slice()) {
        resolve_axis(*axis, 3).map_err(|e| Fault::at("spatial_axis", e.to_string()))?;
    }
    Ok(())
}

setters!(Flip {
    /// Axes that are reversed.
    spatial_axis: Option<OneOrMany<i64>>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Flip {
    fn of_grid(&self) -> Effect {
        Effect::Moves
    }
}

per_image!(Flip { apply: flip, lazy: true, check: check_parameters, effect: of_grid });

transform_entry!(
    Flip,
    r#"keys = ["image", "label"]
spatial_axis = 0"#
);
