//! Resampling of a volume: by a matrix, or at coordinates of one's own.
//!
//! Output voxel `o` takes the value of the input at `matrix * (o, 1)`, in voxels. With a diagonal matrix (a change of
//! spacing without rotation) the three axes are independent: indices and weights are computed once per axis, in f64,
//! and every device uses the same table. A matrix that also exchanges axes is one after a permutation. Any other is sampled
//! voxel by voxel.

mod fallback;
mod ops;
mod spline;
mod taps;

#[cfg(feature = "cpu")]
mod cpu;
#[cfg(feature = "cube")]
mod cube;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use burn::tensor::Tensor;

pub(crate) use taps::Axis;

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
    /// Cubic convolution with `a = -0.75` along each axis, PyTorch's `bicubic` (there in 2-D only).
    Cubic,
    /// A B-spline of order 0 to 5 through the voxels, as `scipy.ndimage` interpolates; order 0 rounds half-way up.
    Spline(u8),
}

/// What lies outside the image.
///
/// The names of `scipy.ndimage` are given beside; its `reflect` and `grid-mirror` are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// The nearest edge voxel (`nearest`).
    #[default]
    Border,
    /// Zero voxels, towards which the image fades out (`grid-constant`).
    Zeros,
    /// The image reflected about the outer faces of its edge voxels (`align_corners=False`; `reflect`).
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
///
/// # Panics
/// Where a spline's order is above 5.
pub fn resample(image: Tensor<4>, matrix: &Matrix, size: [usize; 3], sampling: Sampling) -> Tensor<4> {
    let has_kernel = ops::has_kernel(&image);
    prepared(image, matrix, size, sampling, |image, matrix, size| {
        if has_kernel {
            ops::by_matrix(image, *matrix, size, sampling)
        } else {
            fallback::by_matrix(image, matrix, size, sampling)
        }
    })
}

/// The same with ordinary tensor operations only: what a device without a kernel runs, and what kernels are tested
/// against.
pub fn resample_with_tensor_ops(image: Tensor<4>, matrix: &Matrix, size: [usize; 3], sampling: Sampling) -> Tensor<4> {
    prepared(image, matrix, size, sampling, |image, matrix, size| fallback::by_matrix(image, matrix, size, sampling))
}

/// Samples `image` (`[C, X, Y, Z]`) at `coordinates` (`[3, X', Y', Z']`): output voxel `o` takes the value at
/// `coordinates[.., o]`, in voxels of the image along its three axes. Gives `[C, X', Y', Z']` on the image's own device.
///
/// A 2-D image has `Z = 1`; its third coordinate is 0. An image with an empty axis gives zeros.
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

/// Does what every device does alike: empty images, spline coefficients, exchanged axes.
fn prepared(
    image: Tensor<4>,
    matrix: &Matrix,
    size: [usize; 3],
    sampling: Sampling,
    run: impl FnOnce(Tensor<4>, &Matrix, [usize; 3]) -> Tensor<4>,
) -> Tensor<4> {
    let dims = image.dims();
    if dims.contains(&0) || size.contains(&0) {
        return Tensor::zeros([dims[0], size[0], size[1], size[2]], &image.device());
    }
    let still = std::array::from_fn(|axis| dims[axis + 1] == 1 && reads_zero(&matrix[axis], size));
    let (image, margins) = spline::coefficients(image, sampling, still);
    let mut matrix = *matrix;
    for (row, margin) in matrix.iter_mut().zip(margins) {
        row[3] += margin as f64;
    }
    let Some(order) = exchanged(&matrix) else { return run(image, &matrix, size) };
    // Output axis `a` reads along input axis `order[a]`. Whatever is smaller is turned.
    let [x, y, z] = order.map(|axis| axis as i64 + 1);
    if image.shape().num_elements() <= dims[0] * size.iter().product::<usize>() {
        return run(image.permute([0, x, y, z]), &order.map(|axis| matrix[axis]), size);
    }
    let mut turned = [[0.0; 4]; 3];
    let mut turned_size = [0; 3];
    for (a, axis) in order.into_iter().enumerate() {
        turned[axis][axis] = matrix[axis][a];
        turned[axis][3] = matrix[axis][3];
        turned_size[axis] = size[a];
    }
    run(image, &turned, turned_size).permute([0, x, y, z])
}

/// Whether every output voxel has the coordinate 0 by this row of a matrix.
pub(crate) fn reads_zero(row: &[f64; 4], size: [usize; 3]) -> bool {
    row[3] == 0.0 && (0..3).all(|column| row[column] == 0.0 || size[column] == 1)
}

/// Whether each output axis reads along the same input axis only.
pub(crate) fn is_separable(matrix: &Matrix) -> bool {
    (0..3).all(|row| (0..3).all(|column| row == column || matrix[row][column] == 0.0))
}

/// The input axis of each output axis, where each reads along one of its own and they are not in order.
fn exchanged(matrix: &Matrix) -> Option<[usize; 3]> {
    if is_separable(matrix) {
        return None;
    }
    [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
        .into_iter()
        .find(|order| (0..3).all(|row| (0..3).all(|column| order[column] == row || matrix[row][column] == 0.0)))
}
