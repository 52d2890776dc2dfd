//! Resampling of a volume: by a matrix, or at explicit coordinates.
//!
//! Output voxel `o` takes the value of the input at `matrix * (o, 1)`, in voxels. With a diagonal
//! matrix (a change of spacing without rotation), the three axes are independent: indices and
//! weights are computed once per axis, in f64, and every device uses the same table. A matrix that
//! also exchanges axes is diagonal after a permutation. With any other matrix, sampling works voxel
//! by voxel.

mod fallback;
mod ops;
mod spline;
mod taps;

mod cpu;
#[cfg(feature = "cube")]
mod cube;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use burn::tensor::Tensor;

use crate::separable::{separable, separable_with_tensor_ops};

/// The upper three rows of a 4x4 matrix: output voxel to input voxel.
pub type Matrix = [[f64; 4]; 3];

/// The interpolation between voxels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interpolation {
    /// Trilinear.
    #[default]
    Linear,
    /// The nearest voxel; half-way goes to the even index, as `torch.nn.functional.grid_sample`
    /// rounds.
    Nearest,
    /// Cubic convolution with `a = -0.75` along each axis, PyTorch's `bicubic` (there in 2-D only).
    Cubic,
    /// A B-spline of order 0 to 5 through the voxels, as `scipy.ndimage` interpolates; order 0
    /// rounds half-way up.
    Spline(u8),
}

/// The values outside the image.
///
/// The names of `scipy.ndimage` are in parentheses; its `reflect` and `grid-mirror` are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// The nearest edge voxel (`nearest`).
    #[default]
    Border,
    /// Zero voxels, towards which the image fades out (`grid-constant`).
    Zeros,
    /// The image reflected about the outer faces of its edge voxels (`align_corners=False`;
    /// `reflect`).
    Reflection,
    /// The image reflected about the centres of its edge voxels (`align_corners=True`; `mirror`).
    Mirror,
    /// Nothing is read beyond the centres of the edge voxels: the value there is 0 (`constant`).
    Cut,
    /// The image repeated so that its last voxel is its first (`wrap`).
    Wrap,
    /// The image repeated (`grid-wrap`).
    GridWrap,
}

/// Interpolation and padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// The interpolation between voxels.
    pub mode: Interpolation,
    /// The values outside the image.
    pub padding: Padding,
}

/// A matrix from output to input voxels, and the box of output voxels to compute.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    matrix: Matrix,
    origin: [usize; 3],
    size: [usize; 3],
}

impl Target {
    /// The coordinate of an output voxel of the box along one input axis.
    #[inline(always)]
    pub(crate) fn coordinate(&self, row: usize, at: [usize; 3]) -> f64 {
        let m = &self.matrix[row];
        let [x, y, z] = std::array::from_fn(|a| (self.origin[a] + at[a]) as f64);
        m[0] * x + m[1] * y + m[3] + m[2] * z
    }

    /// Whether each output axis reads along the same input axis only.
    fn is_separable(&self) -> bool {
        (0..3).all(|row| (0..3).all(|column| row == column || self.matrix[row][column] == 0.0))
    }

    /// Whether an input axis is read at 0 only.
    fn reads_zero(&self, row: usize) -> bool {
        let m = &self.matrix[row];
        m[3] == 0.0 && (0..3).all(|column| m[column] == 0.0 || (self.origin[column], self.size[column]) == (0, 1))
    }

    /// The input axis of each output axis, where they are all different and not in order.
    fn exchanged(&self) -> Option<[usize; 3]> {
        if self.is_separable() {
            return None;
        }
        [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]].into_iter().find(|order| {
            (0..3).all(|row| (0..3).all(|column| order[column] == row || self.matrix[row][column] == 0.0))
        })
    }
}

/// Resamples `image` (`[C, X, Y, Z]`) to `[C, size[0], size[1], size[2]]` on the image's own
/// device.
///
/// Coordinates are f64 on the CPU and for diagonal matrices everywhere; with another matrix a GPU
/// computes them in f32. For an image with an empty axis the result is zeros.
///
/// # Panics
/// Where a spline's order is above 5.
pub fn resample(image: Tensor<4>, matrix: &Matrix, size: [usize; 3], sampling: Sampling) -> Tensor<4> {
    resample_part(image, matrix, [0; 3], size, sampling)
}

/// Computes only the voxels from `origin` to `origin + size` of the result of [`resample`].
///
/// # Panics
/// Same as [`resample`].
pub fn resample_part(
    image: Tensor<4>,
    matrix: &Matrix,
    origin: [usize; 3],
    size: [usize; 3],
    sampling: Sampling,
) -> Tensor<4> {
    let kernels = ops::has_kernel(&image);
    prepared(image, Target { matrix: *matrix, origin, size }, sampling, kernels)
}

/// Same as [`resample`], with ordinary tensor operations only: the fallback for devices without a
/// kernel, and the reference in tests of the kernels.
pub fn resample_with_tensor_ops(image: Tensor<4>, matrix: &Matrix, size: [usize; 3], sampling: Sampling) -> Tensor<4> {
    prepared(image, Target { matrix: *matrix, origin: [0; 3], size }, sampling, false)
}

/// Samples `image` (`[C, X, Y, Z]`) at `coordinates` (`[3, X', Y', Z']`): output voxel `o` takes
/// the value at `coordinates[.., o]`, in voxels of the image along its three axes. Returns `[C, X',
/// Y', Z']` on the image's own device.
///
/// A 2-D image has `Z = 1`; its third coordinate is 0. For an image with an empty axis the result
/// is zeros.
///
/// # Panics
/// Where the first axis of `coordinates` is not 3, or a spline's order is above 5.
pub fn sample_grid(image: Tensor<4>, coordinates: Tensor<4>, sampling: Sampling) -> Tensor<4> {
    let has_kernel = ops::has_kernel(&image) && ops::has_kernel(&coordinates);
    let dims = image.dims();
    let [three, sx, sy, sz] = coordinates.dims();
    assert_eq!(three, 3, "coordinates have one entry per axis");
    if dims.contains(&0) || [sx, sy, sz].contains(&0) {
        return Tensor::zeros([dims[0], sx, sy, sz], &image.device());
    }
    let (image, margins) = spline::coefficients(image, sampling, [false; 3]);
    let mut coordinates = coordinates;
    if let Some(margin) = margins.into_iter().find(|m| *m > 0) {
        coordinates = coordinates + margin as f32;
    }
    if has_kernel {
        ops::by_grid(image, coordinates, sampling)
    } else {
        fallback::by_grid(image, coordinates, sampling)
    }
}

/// The steps that are the same on every device: empty images, spline coefficients, exchanged axes,
/// independent axes.
fn prepared(image: Tensor<4>, mut target: Target, sampling: Sampling, kernels: bool) -> Tensor<4> {
    let (dims, size) = (image.dims(), target.size);
    if dims.contains(&0) || size.contains(&0) {
        return Tensor::zeros([dims[0], size[0], size[1], size[2]], &image.device());
    }
    let still = std::array::from_fn(|axis| dims[axis + 1] == 1 && target.reads_zero(axis));
    let (image, margins) = spline::coefficients(image, sampling, still);
    for (row, margin) in target.matrix.iter_mut().zip(margins) {
        row[3] += margin as f64;
    }
    if target.is_separable() {
        return by_axes(image, &target, sampling, kernels);
    }
    let Some(order) = target.exchanged() else {
        return if kernels {
            ops::by_matrix(image, target, sampling)
        } else {
            fallback::by_matrix(image, target, sampling)
        };
    };
    // Output axis `a` reads along input axis `order[a]`, so the result is transposed.
    let mut turned = Target { matrix: [[0.0; 4]; 3], ..target };
    for (a, axis) in order.into_iter().enumerate() {
        turned.matrix[axis][axis] = target.matrix[axis][a];
        turned.matrix[axis][3] = target.matrix[axis][3];
        turned.size[axis] = size[a];
        turned.origin[axis] = target.origin[a];
    }
    let [x, y, z] = order.map(|axis| axis as i64 + 1);
    by_axes(image, &turned, sampling, kernels).permute([0, x, y, z])
}

fn by_axes(image: Tensor<4>, target: &Target, sampling: Sampling, kernels: bool) -> Tensor<4> {
    let dims = image.dims();
    let axes = std::array::from_fn(|axis| taps::table(target, axis, dims[axis + 1], sampling));
    if kernels { separable(image, &axes) } else { separable_with_tensor_ops(image, &axes) }
}
