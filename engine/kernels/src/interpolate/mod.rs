//! Resizes a volume: `torch.nn.functional.interpolate` by size.
//!
//! Every mode is separable. The inputs and weights of each output index along one axis form a table
//! ([`AxisTaps`]), computed once on the host, so that every device uses the same one.

mod axis;
#[cfg(test)]
mod tests;

use burn::tensor::Tensor;

pub(crate) use axis::cubic_weights;

use crate::separable::{AxisTaps, separable};

/// The interpolation of a resized volume (PyTorch's names; linear and cubic are bilinear or
/// trilinear, bicubic or tricubic, by the number of axes longer than one voxel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InterpolateMode {
    /// The mean of the voxels that an output voxel covers, each counted whole (adaptive average
    /// pooling).
    #[default]
    Area,
    /// The voxel at `floor(o * n / size)`, rounded as in PyTorch: shifted by up to half a voxel.
    Nearest,
    /// The voxel that holds the centre of the output voxel.
    NearestExact,
    /// Linear along every axis.
    Linear,
    /// Keys' cubic convolution along every axis, a = -0.75; edge voxels are repeated.
    Cubic,
}

/// Resizes `image` (`[C, X, Y, Z]`) to `[C, size[0], size[1], size[2]]` on its own device.
///
/// `align_corners` aligns the centres of the corner voxels of both volumes instead of their outer
/// corners; it applies to [`InterpolateMode::Linear`] and [`InterpolateMode::Cubic`] only. For an
/// image with an empty axis the result is zeros.
pub fn interpolate(image: Tensor<4>, size: [usize; 3], mode: InterpolateMode, align_corners: bool) -> Tensor<4> {
    let dims = image.dims();
    let axes = std::array::from_fn(|axis| AxisTaps::resize(dims[axis + 1].max(1), size[axis], mode, align_corners));
    separable(image, &axes)
}
