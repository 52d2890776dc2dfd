//! Spatial operations on an [`Image`]: each updates the affine, is recorded, and can be inverted.
//!
//! ```
//! use hearth_image::{Image, affine, host_device, spatial};
//! let image = Image::from_values(vec![1.0; 64], [1, 4, 4, 4], affine::IDENTITY, &host_device());
//! let part = spatial::crop(image, [1, 0, 0], [3, 4, 4]);
//! assert_eq!((part.shape(), part.affine[0][3]), ([2, 4, 4], 1.0)); // it begins at 1 mm
//! let back = part.undo_last(false)?; // zeros where the crop left nothing
//! assert_eq!((back.shape(), back.affine), ([4, 4, 4], affine::IDENTITY));
//! # Ok::<(), hearth_image::TransformError>(())
//! ```

mod crop;
mod deform;
mod foreground;
mod grid;
pub(crate) mod lazy;
mod matrix;
mod pad;
mod pad_statistic;
mod reorder;
mod resize;
mod warp;
mod window;

pub use crop::{BoundingBox, crop, crop_or_pad};
pub use deform::{deform, displaced};
pub use foreground::foreground_box;
pub use grid::{
    ComputeType, GridMode, GridPadding, GridSampling, SplineOrder, resample_to, shape_and_offset, zoom_affine,
};
pub use lazy::{Lazy, LazySampling, begin as begin_lazy, end as end_lazy};
pub use matrix::{AffineParameters, RotateOrder, rotation, scaling, shear, shift};
pub use pad::{PadMode, pad};
pub use reorder::{flip, reorder, rotate90};
pub use resize::{ResizeMode, resize, scale_affine};
pub use warp::{Warp, check_grid, resample_at, warp};
pub use window::window;

use crate::image::{Applied, Image};
use crate::{TransformError, affine};

/// Inverts one operation on an image that is in the state directly after it.
pub(crate) fn undo(image: Image, applied: &Applied, nearest: bool) -> Result<Image, TransformError> {
    let image = lazy::end(image)?;
    let mut image = match applied {
        Applied::Reorder(reorder) => reorder::reorder_unrecorded(image, &reorder.inverse()),
        Applied::Crop { start, shape } => {
            let size = image.shape();
            let mut after = [0; 3];
            for axis in 0..3 {
                after[axis] = shape[axis].checked_sub(start[axis] + size[axis]).ok_or_else(|| {
                    TransformError::new(format!("can't undo a crop: the image is {size:?} voxels"))
                        .expected(format!("the shape the crop left, within {shape:?}"))
                })?;
            }
            pad::pad_unrecorded(image, *start, after, PadMode::Constant, 0.0)?
        }
        Applied::Pad { before, after } => {
            let shape = image.shape();
            let mut end = [0; 3];
            for axis in 0..3 {
                end[axis] = shape[axis].checked_sub(after[axis]).filter(|e| *e >= before[axis]).ok_or_else(|| {
                    TransformError::new(format!("can't undo padding: the image is only {shape:?} voxels"))
                })?;
            }
            crop::crop_unrecorded(image, *before, end)
        }
        Applied::Flatten => {
            let mut image = image;
            image.meta.spatial_dims = 3;
            image
        }
        Applied::Warp { affine, shape, back, sampling } => {
            let mut image = image;
            image.data = lazy::read(image.data, *back, *shape, sampling.or_nearest(nearest));
            image.affine = *affine;
            image
        }
        Applied::Resize { affine, shape, spatial_dims, mode, align_corners } => {
            let mut image = resize::resize_unrecorded(image, *shape, mode.or_nearest(nearest), *align_corners);
            image.affine = *affine;
            image.meta.spatial_dims = *spatial_dims;
            image
        }
        Applied::Resample { affine, shape, sampling } | Applied::Foreign { affine, shape, sampling, .. } => {
            let sampling = sampling.or_nearest(nearest);
            let destination = affine::restrict(affine, image.meta.spatial_dims);
            let original = *affine;
            let mut image = grid::resample_unrecorded(image, &destination, *shape, sampling)?.0;
            image.affine = original;
            image
        }
    };
    // -0.0 and 0.0 are the same position; normalize affines for printing and comparison.
    image.affine.iter_mut().flatten().for_each(|v| *v += 0.0);
    Ok(image)
}
