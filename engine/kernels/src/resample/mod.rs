//! Affine resampling of a volume.
//!
//! Output voxel `o` takes the value of the input at `matrix * (o, 1)`, in voxels. With a diagonal matrix (a change of
//! spacing without rotation) the three axes are independent: indices and weights are computed once per axis, in f64,
//! and every device uses the same table. Any other matrix is sampled voxel by voxel.

mod axis;
mod fallback;
mod grid;

#[cfg(feature = "cpu")]
mod cpu;
#[cfg(feature = "cube")]
mod cube;
mod ops;
#[cfg(test)]
mod tests;

use burn::tensor::Tensor;

pub use grid::sample_grid;

pub(crate) use axis::{Axis, axis_table, taps};

/// The upper three rows of a 4x4 matrix: output voxel to input voxel.
pub type Matrix = [[f64; 4]; 3];

/// How a value between voxels is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interpolation {
    /// Trilinear.
    #[default]
    Linear,
    /// The nearest voxel; half-way goes to the even index, as `torch.nn.functional.grid_sample` rounds.
    Nearest,
}

/// What lies outside the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// The nearest edge voxel.
    #[default]
    Border,
    /// Zero.
    Zeros,
    /// The image reflected about the outer faces of its edge voxels (`align_corners=False`).
    Reflection,
    /// The image reflected about the centres of its edge voxels (`align_corners=True`).
    Mirror,
}

/// Interpolation and padding together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// How a value between voxels is found.
    pub mode: Interpolation,
    /// What lies outside the image.
    pub padding: Padding,
}

/// Resamples `image` (`[C, X, Y, Z]`) to `[C, size[0], size[1], size[2]]` on the image's own device.
///
/// Coordinates are f64 on the CPU and for diagonal matrices everywhere; with another matrix a GPU computes them in f32.
/// An image with an empty axis gives zeros.
pub fn resample(image: Tensor<4>, matrix: &Matrix, size: [usize; 3], sampling: Sampling) -> Tensor<4> {
    let dims = image.dims();
    if dims.contains(&0) || size.contains(&0) {
        return Tensor::zeros([dims[0], size[0], size[1], size[2]], &image.device());
    }
    if ops::has_kernel(&image) {
        ops::launch(image, *matrix, size, sampling)
    } else {
        fallback::resample(image, matrix, size, sampling)
    }
}

/// The same with ordinary tensor operations only: what a device without a kernel runs, and what kernels are tested
/// against.
pub fn resample_with_tensor_ops(image: Tensor<4>, matrix: &Matrix, size: [usize; 3], sampling: Sampling) -> Tensor<4> {
    fallback::resample(image, matrix, size, sampling)
}

/// Whether each output axis reads along the same input axis only.
pub(crate) fn is_separable(matrix: &Matrix) -> bool {
    (0..3).all(|row| (0..3).all(|column| row == column || matrix[row][column] == 0.0))
}
