use hearth_image::orientation::Reorder;
use hearth_image::{Applied, Image, TransformError, spatial};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rand_flip::resolve_axis;
use crate::params::Keys;

/// Drops an axis of one voxel: a volume of one slice becomes a 2-D image.
///
/// `dim` counts the channels as 0, so spatial axes are 1 to 3, or -1 to -3. Differs from MONAI: an
/// image always has channels, so dropping axis 0 is an error. The position in the world is kept for
/// every axis, and the operation can be inverted.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::SqueezeDim};
/// let image = tiny::apply(SqueezeDim::new("image", -1), tiny::ramp([1, 2, 3, 1]))?;
/// assert_eq!(image.spatial_shape(), [2, 3]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SqueezeDim {
    keys: Keys,
    /// Axis of length 1 to drop; -1 is the last.
    dim: i64,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl SqueezeDim {
    /// Creates the transform: drops this axis.
    pub fn new(keys: impl Into<Keys>, dim: i64) -> Self {
        SqueezeDim { keys: keys.into(), dim, allow_missing_keys: false }
    }

    /// Drops the axis of one image.
    ///
    /// # Errors
    /// If it is not one voxel long, or the image is already 2-D.
    pub fn squeeze(&self, image: Image, _place: usize) -> Result<Image, TransformError> {
        let axis = resolve_axis(if self.dim > 0 { self.dim - 1 } else { self.dim }, image.meta.spatial_dims)?;
        drop_axis(image, axis)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        match self.dim {
            -3..=-1 | 1..=3 => Ok(()),
            0 => Err(Fault::at("dim", "is 0, but an image always has channels; name a spatial axis, for instance -1")),
            dim => Err(Fault::at("dim", format!("there is no axis {dim}"))),
        }
    }
}

/// Converts a 3-D image of one slice along `axis` to a 2-D image.
pub(super) fn drop_axis(image: Image, axis: usize) -> Result<Image, TransformError> {
    let shape = image.shape();
    if image.meta.spatial_dims != 3 {
        return Err(TransformError::new("the image is 2-D already").expected("a volume of one slice"));
    }
    if shape[axis] != 1 {
        return Err(TransformError::new(format!("axis {axis} has {} voxels", shape[axis])).expected("one, to drop it"));
    }
    let mut how = Reorder::NONE;
    // The other axes first, in order.
    how.source.sort_by_key(|from| *from == axis);
    let mut image = spatial::reorder(image, &how);
    image.meta.spatial_dims = 2;
    image.meta.applied.push(Applied::Flatten);
    Ok(image)
}

setters!(SqueezeDim {
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

per_image!(SqueezeDim { apply: squeeze, lazy: false, check: check_parameters });

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_image::{affine, host_device};

    #[test]
    fn a_slice_becomes_flat_and_back() {
        let values: Vec<f32> = (0..12).map(|v| v as f32).collect();
        let mut place = affine::IDENTITY;
        place[0] = [0.0, 2.0, 0.5, 7.0];
        let image = Image::from_values(values.clone(), [2, 3, 1, 2], place, &host_device());
        let flat = SqueezeDim::new("image", 2).squeeze(image.clone(), 0).expect("one slice");
        assert_eq!((flat.shape(), flat.meta.spatial_dims), ([3, 2, 1], 2));
        assert_eq!(flat.to_vec(), values);
        assert_eq!(affine::apply(&flat.affine, [2.0, 1.0, 0.0]), affine::apply(&place, [2.0, 0.0, 1.0]));
        let back = flat.undo_last(false).and_then(|i| i.undo_last(false)).expect("it can be undone");
        assert_eq!((back.shape(), back.meta.spatial_dims, back.affine), ([3, 1, 2], 3, place));
        assert!(SqueezeDim::new("image", 1).squeeze(image, 0).is_err());
    }
}

transform_entry!(
    SqueezeDim,
    r#"keys = ["one"]
dim = -1"#
);
