use hearth_image::{Image, TransformError, spatial};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rand_flip::resolve_axis;
use crate::params::Keys;

/// Rotates by `k` quarter turns (by default 1; negative numbers rotate back) in the plane of two
/// axes, from the first towards the second.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::Rotate90};
/// let image = tiny::apply(Rotate90::new("image"), tiny::ramp([1, 2, 3, 1]))?;
/// assert_eq!((image.shape(), image.to_vec()), ([3, 2, 1], vec![2.0, 5.0, 1.0, 4.0, 0.0, 3.0]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rotate90 {
    keys: Keys,
    #[serde(default = "one")]
    k: i64,
    #[serde(default = "first_two")]
    spatial_axes: [i64; 2],
    #[serde(default)]
    allow_missing_keys: bool,
}

fn one() -> i64 {
    1
}

pub(super) fn first_two() -> [i64; 2] {
    [0, 1]
}

impl Rotate90 {
    /// Creates the transform: one quarter turn in the plane of the first two axes.
    pub fn new(keys: impl Into<Keys>) -> Self {
        Rotate90 { keys: keys.into(), k: one(), spatial_axes: first_two(), allow_missing_keys: false }
    }

    /// Rotates one image.
    ///
    /// # Errors
    /// If the image does not have an axis, or both are the same.
    pub fn rotate(&self, image: Image, _place: usize) -> Result<Image, TransformError> {
        rotate_in_plane(image, self.k.rem_euclid(4) as usize, self.spatial_axes)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_plane(self.spatial_axes)
    }
}

/// Rotates by `k` quarter turns in the plane of two axes; negative axes count from the end.
pub(super) fn rotate_in_plane(image: Image, k: usize, [first, second]: [i64; 2]) -> Result<Image, TransformError> {
    let n = image.meta.spatial_dims;
    match (resolve_axis(first, n)?, resolve_axis(second, n)?) {
        (a, b) if a == b => Err(TransformError::new(format!("axes {first} and {second} are the same axis of {n}"))),
        (a, b) => Ok(spatial::rotate90(image, k, a, b)),
    }
}

pub(super) fn check_plane(axes: [i64; 2]) -> Result<(), Fault> {
    let axis = |a| resolve_axis(a, 3).map_err(|e| Fault::at("spatial_axes", e.to_string()));
    if axis(axes[0])? == axis(axes[1])? {
        return Err(Fault::at("spatial_axes", "must be two different axes"));
    }
    Ok(())
}

setters!(Rotate90 {
    /// Number of quarter turns.
    k: i64,
    /// The two axes of the plane.
    spatial_axes: [i64; 2],
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

per_image!(Rotate90 { apply: rotate, lazy: true, check: check_parameters });

transform_entry!(
    Rotate90,
    r#"keys = ["image", "label"]
k = 1
spatial_axes = [0, 1]"#
);
