//! Resizing a volume: `torch.nn.functional.interpolate` by size.
//!
//! Every mode is separable. What an output index reads along one axis, and with what weights, is a table ([`AxisTaps`]) that is
//! computed once on the host; the three tables are then applied one after the other. So every device gives the same result, and
//! anything else that is separable ([`separable`]) runs on the same loops.

mod axis;
#[cfg(feature = "cpu")]
mod cpu;
mod fallback;
#[cfg(test)]
mod tests;

use burn::tensor::Tensor;

pub use axis::AxisTaps;

/// How a value of the resized volume is found (PyTorch's names; linear and cubic are bilinear or trilinear, bicubic or
/// tricubic, by the number of axes longer than one voxel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InterpolateMode {
    /// The mean of the voxels that an output voxel covers, each counted whole (adaptive average pooling).
    #[default]
    Area,
    /// The voxel at `floor(o * n / size)`, rounded as PyTorch rounds it: shifted by up to half a voxel.
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
/// `align_corners` puts the centres of the corner voxels of both volumes on each other, rather than their outer corners; it counts for
/// [`InterpolateMode::Linear`] and [`InterpolateMode::Cubic`] only. An image with an empty axis gives zeros.
pub fn interpolate(image: Tensor<4>, size: [usize; 3], mode: InterpolateMode, align_corners: bool) -> Tensor<4> {
    let dims = image.dims();
    let axes = std::array::from_fn(|axis| AxisTaps::resize(dims[axis + 1].max(1), size[axis], mode, align_corners));
    separable(image, &axes)
}

/// Applies one table per axis to `image` (`[C, X, Y, Z]`): `out[c, x, y, z]` is the sum of
/// `image[c, i, j, k] * weight_x(x, i) * weight_y(y, j) * weight_z(z, k)` over the taps of the three tables. The result has the length of
/// each table along its axis. An image with an empty axis gives zeros.
///
/// # Panics
/// Where a table reads an index that the image does not have.
pub fn separable(image: Tensor<4>, axes: &[AxisTaps; 3]) -> Tensor<4> {
    let dims = image.dims();
    let size = axes.each_ref().map(AxisTaps::len);
    if dims.contains(&0) || size.contains(&0) {
        return Tensor::zeros([dims[0], size[0], size[1], size[2]], &image.device());
    }
    for (axis, table) in axes.iter().enumerate() {
        let n = dims[axis + 1];
        assert!(table.reads_within(n), "a table of axis {axis} reads beyond its {n} voxels");
    }
    if (0..3).all(|axis| axes[axis].is_identity(dims[axis + 1])) {
        return image;
    }
    #[cfg(feature = "cpu")]
    if let Some(out) = cpu::separable(&image, axes) {
        return out;
    }
    fallback::separable(image, axes)
}

/// [`separable`] with ordinary tensor operations only: what a device other than the CPU runs, and what the loops are tested against.
pub fn separable_with_tensor_ops(image: Tensor<4>, axes: &[AxisTaps; 3]) -> Tensor<4> {
    fallback::separable(image, axes)
}
