//! Resampling with ordinary tensor operations: for devices without a kernel.

use burn::tensor::{Device, Int, Tensor, TensorData};

use super::{Matrix, Sampling, axis_table, is_separable, taps};

pub(super) fn resample(image: Tensor<4>, matrix: &Matrix, size: [usize; 3], sampling: Sampling) -> Tensor<4> {
    if is_separable(matrix) { separable(image, matrix, size, sampling) } else { general(image, matrix, size, sampling) }
}

/// One axis after the other: pick the two neighbours, weigh them, add.
fn separable(mut image: Tensor<4>, matrix: &Matrix, size: [usize; 3], sampling: Sampling) -> Tensor<4> {
    let device = image.device();
    for axis in 0..3 {
        let table = axis_table(matrix, axis, image.dims()[axis + 1], size[axis], sampling);
        let mut along = [1; 4];
        along[axis + 1] = size[axis];
        let low = image.clone().select(axis + 1, indices(&table.low, &device))
            * weights(table.weight_low, &device).reshape(along);
        image = if table.weight_high.iter().all(|w| *w == 0.0) {
            low
        } else {
            low + image.select(axis + 1, indices(&table.high, &device))
                * weights(table.weight_high, &device).reshape(along)
        };
    }
    image
}

/// Eight gathers from the flattened volume, with indices and weights computed here in f64.
fn general(image: Tensor<4>, matrix: &Matrix, size: [usize; 3], sampling: Sampling) -> Tensor<4> {
    let device = image.device();
    let [channels, nx, ny, nz] = image.dims();
    let count = size.iter().product::<usize>();
    let mut index = vec![Vec::new(); 8];
    let mut weight = vec![Vec::new(); 8];
    for x in 0..size[0] {
        for y in 0..size[1] {
            for z in 0..size[2] {
                let at = |r: usize| {
                    matrix[r][0] * x as f64 + matrix[r][1] * y as f64 + matrix[r][2] * z as f64 + matrix[r][3]
                };
                let t = [taps(at(0), nx, sampling), taps(at(1), ny, sampling), taps(at(2), nz, sampling)];
                for corner in 0..8 {
                    let side = |axis: usize| {
                        if corner >> axis & 1 == 0 {
                            (t[axis].low, t[axis].weight_low)
                        } else {
                            (t[axis].high, t[axis].weight_high)
                        }
                    };
                    let ((i, wi), (j, wj), (k, wk)) = (side(0), side(1), side(2));
                    index[corner].push(((i * ny + j) * nz + k) as u32);
                    weight[corner].push(wi * wj * wk);
                }
            }
        }
    }
    let flat: Tensor<2> = image.reshape([channels, nx * ny * nz]);
    let mut sum = Tensor::<2>::zeros([channels, count], &device);
    for (index, weight) in index.iter().zip(weight) {
        if weight.iter().any(|w| *w != 0.0) {
            let picked = flat.clone().select(1, indices(index, &device));
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
