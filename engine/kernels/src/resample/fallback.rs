//! Resampling with ordinary tensor operations: for devices without a kernel.

use burn::tensor::{Device, Int, Tensor, TensorData};

use super::taps::{MOST_TAPS, find};
use super::{Sampling, Target};
use crate::host;

pub(super) fn by_matrix(image: Tensor<4>, target: Target, sampling: Sampling) -> Tensor<4> {
    let size = target.size;
    let points = (0..size.iter().product::<usize>()).map(|i| {
        let at = [i / (size[1] * size[2]), i / size[2] % size[1], i % size[2]];
        std::array::from_fn(|row| target.coordinate(row, at))
    });
    at_points(image, points, size, sampling)
}

/// The coordinates are copied to the CPU, which computes the indices to gather.
pub(super) fn by_grid(image: Tensor<4>, coordinates: Tensor<4>, sampling: Sampling) -> Tensor<4> {
    let [_, sx, sy, sz] = coordinates.dims();
    let count = sx * sy * sz;
    let values = host::values(&coordinates);
    let points = (0..count).map(|i| std::array::from_fn(|axis| f64::from(values[axis * count + i])));
    at_points(image, points, [sx, sy, sz], sampling)
}

/// One gather from the flattened volume per combination of taps; indices and weights are computed
/// here in f64.
fn at_points(
    image: Tensor<4>,
    points: impl Iterator<Item = [f64; 3]>,
    size: [usize; 3],
    sampling: Sampling,
) -> Tensor<4> {
    let device = image.device();
    let [channels, nx, ny, nz] = image.dims();
    let taps = sampling.mode.taps();
    let mut gathers = vec![(Vec::new(), Vec::new()); taps * taps * taps];
    for point in points {
        let (mut index, mut weight) = ([[0; MOST_TAPS]; 3], [[0.0; MOST_TAPS]; 3]);
        for (axis, n) in [nx, ny, nz].into_iter().enumerate() {
            find(point[axis], n, sampling, &mut index[axis][..taps], &mut weight[axis][..taps]);
        }
        for (combination, (picked, weights)) in gathers.iter_mut().enumerate() {
            let [i, j, k] = [combination / (taps * taps), combination / taps % taps, combination % taps];
            picked.push(((index[0][i] * ny + index[1][j]) * nz + index[2][k]) as u32);
            weights.push(weight[0][i] * weight[1][j] * weight[2][k]);
        }
    }
    let count = size.iter().product::<usize>();
    let flat: Tensor<2> = image.reshape([channels, nx * ny * nz]);
    let mut sum = Tensor::<2>::zeros([channels, count], &device);
    for (index, weight) in gathers {
        if weight.iter().any(|w| *w != 0.0) {
            let picked = flat.clone().select(1, indices(&index, &device));
            sum = sum + picked * weights(weight, &device).reshape([1, count]);
        }
    }
    sum.reshape([channels, size[0], size[1], size[2]])
}

fn indices(values: &[u32], device: &Device) -> Tensor<1, Int> {
    let values: Vec<i32> = values.iter().map(|v| *v as i32).collect();
    let n = values.len();
    Tensor::from_data(TensorData::new(values, [n]), device)
}

fn weights(values: Vec<f32>, device: &Device) -> Tensor<1> {
    let n = values.len();
    Tensor::from_data(TensorData::new(values, [n]), device)
}
