//! Maximum and average pooling in three dimensions, with fixed or adaptive windows, and a
//! handwritten backward pass.
//!
//! Every kind is one pass over a table of windows per axis: row by row on the CPU (f32), value by
//! value on GPUs. Where there is no kernel, the same table drives ordinary tensor operations.
//!
//! Two-dimensional input has depth 1: give the last axis kernel 1, stride 1 and padding 0.

mod cpu;
#[cfg(gpu_kernels)]
mod cube;
mod fallback;
mod ops;
#[cfg(test)]
mod tests;
mod windows;

use burn::tensor::{DType, Tensor};

use crate::cast::{cast, half_on_cpu};
use windows::{Axis, Pooling};

/// Kernel, stride, padding and dilation of a pooling; padding is the same at both ends of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// The number of inputs per window along each axis.
    pub kernel: [usize; 3],
    /// The distance between windows.
    pub stride: [usize; 3],
    /// The number of positions by which windows reach over each end.
    pub padding: [usize; 3],
    /// The distance between the inputs of a window.
    pub dilation: [usize; 3],
    /// Whether a last window that the end cuts off counts.
    pub ceil_mode: bool,
}

impl PoolShape {
    /// Adjacent windows: the stride equals the kernel, no padding, dilation 1.
    pub fn new(kernel: [usize; 3]) -> Self {
        PoolShape { kernel, stride: kernel, padding: [0; 3], dilation: [1; 3], ceil_mode: false }
    }

    /// The output's size, by PyTorch's formula; `None` where no window fits.
    pub fn output(&self, input: [usize; 3]) -> Option<[usize; 3]> {
        let mut output = [0; 3];
        for (axis, length) in output.iter_mut().enumerate() {
            *length = windows::count(self, axis, input[axis])?;
        }
        Some(output)
    }
}

/// The divisor of a sum over a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// The window's size, padding included (PyTorch's default).
    Window,
    /// The number of the window's inputs that lie inside.
    Inside,
    /// This number.
    Given(usize),
}

/// The largest value of each window; `[B, C, X, Y, Z]` to `[B, C, X', Y', Z']`.
///
/// The gradient goes to the first of several equal values, as in PyTorch.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_kernels::pool3d::{PoolShape, max_pool3d};
/// let x = Tensor::<5>::ones([1, 1, 4, 4, 4], &Device::default());
/// assert_eq!(max_pool3d(x, PoolShape::new([2; 3])).dims(), [1, 1, 2, 2, 2]);
/// ```
///
/// # Panics
/// Where no window fits (see [`PoolShape::output`]).
pub fn max_pool3d(x: Tensor<5>, shape: PoolShape) -> Tensor<5> {
    let axes = fixed(&x, &shape, Divisor::Window);
    largest(x, axes)
}

/// The mean of each window; `[B, C, X, Y, Z]` to `[B, C, X', Y', Z']`. The dilation is not used.
///
/// # Panics
/// Where no window fits (see [`PoolShape::output`]).
pub fn avg_pool3d(x: Tensor<5>, shape: PoolShape, divisor: Divisor) -> Tensor<5> {
    let shape = PoolShape { dilation: [1; 3], ..shape };
    let axes = fixed(&x, &shape, divisor);
    let scale = match divisor {
        Divisor::Given(n) => 1.0 / n as f64,
        Divisor::Window | Divisor::Inside => 1.0,
    };
    mean(x, axes, scale)
}

/// The largest value of each of `output` windows, which divide an axis as evenly as possible: maps
/// `[b, c, x, y, z]` to `[b, c]` and `output`.
///
/// # Panics
/// Where an axis of `x` is empty.
pub fn adaptive_max_pool3d(x: Tensor<5>, output: [usize; 3]) -> Tensor<5> {
    let axes = adaptive(&x, output);
    largest(x, axes)
}

/// The mean of each of `output` windows, which divide an axis as evenly as possible: maps
/// `[b, c, x, y, z]` to `[b, c]` and `output`.
///
/// # Panics
/// Where an axis of `x` is empty.
pub fn adaptive_avg_pool3d(x: Tensor<5>, output: [usize; 3]) -> Tensor<5> {
    let axes = adaptive(&x, output);
    mean(x, axes, 1.0)
}

fn fixed(x: &Tensor<5>, shape: &PoolShape, divisor: Divisor) -> [Axis; 3] {
    let [_, _, nx, ny, nz] = x.dims();
    let fits = "a pooling needs an input as large as one window";
    let axis = |axis: usize, input: usize| Axis::fixed(shape, axis, input, divisor).expect(fits);
    [axis(0, nx), axis(1, ny), axis(2, nz)]
}

fn adaptive(x: &Tensor<5>, output: [usize; 3]) -> [Axis; 3] {
    let [_, _, nx, ny, nz] = x.dims();
    assert!(nx * ny * nz > 0, "an adaptive pooling needs an input that is not empty");
    [Axis::adaptive(nx, output[0]), Axis::adaptive(ny, output[1]), Axis::adaptive(nz, output[2])]
}

fn largest(x: Tensor<5>, axes: [Axis; 3]) -> Tensor<5> {
    if ops::has_kernel(&x) {
        return ops::largest(x, Pooling { axes, scale: 1.0 });
    }
    if let Some(dtype) = half_on_cpu(&x) {
        return cast(largest(cast(x, DType::F32), axes), dtype);
    }
    fallback::largest(x, &axes)
}

fn mean(x: Tensor<5>, axes: [Axis; 3], scale: f64) -> Tensor<5> {
    let pooling = Pooling { axes, scale };
    if ops::has_kernel(&x) {
        return ops::mean(x, pooling);
    }
    if let Some(dtype) = half_on_cpu(&x) {
        return cast(mean(cast(x, DType::F32), pooling.axes, scale), dtype);
    }
    fallback::mean(x, &pooling)
}
