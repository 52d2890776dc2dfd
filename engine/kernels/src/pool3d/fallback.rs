//! Pooling with ordinary tensor operations, one axis after the other: for devices and types without
//! a kernel.

use burn::tensor::{Int, Tensor, TensorData};

use super::windows::{Axis, Pooling};

/// Gathers every window, with shorter ones padded by their last input, and takes the largest of
/// each.
pub fn largest(x: Tensor<5>, axes: &[Axis; 3]) -> Tensor<5> {
    axes.iter().enumerate().fold(x, |x, (axis, table)| {
        if table.is_identity() {
            return x;
        }
        let most = table.windows.iter().map(|w| w.count).max().unwrap_or(0).max(1);
        let places: Vec<i64> = table
            .windows
            .iter()
            .flat_map(|w| (0..most).map(|i| (w.start + i.min(w.count.saturating_sub(1)) * table.step) as i64))
            .collect();
        let places = Tensor::<1, Int>::from_data(TensorData::new(places, [table.windows.len() * most]), &x.device());
        let dims = x.dims();
        let before: usize = dims[..axis + 2].iter().product();
        let after: usize = dims[axis + 3..].iter().product();
        let gathered = x.select(axis + 2, places).reshape([before, table.windows.len(), most, after]);
        let mut out = dims;
        out[axis + 2] = table.windows.len();
        gathered.max_dim(2).reshape(out)
    })
}

/// Multiplies each axis by the matrix of its windows' weights.
pub fn mean(x: Tensor<5>, pooling: &Pooling) -> Tensor<5> {
    let dtype = x.dtype();
    let x = pooling.axes.iter().enumerate().fold(x, |x, (axis, table)| {
        if table.is_identity() {
            return x;
        }
        let count = table.windows.len();
        let mut weights = vec![0.0_f32; table.input * count];
        for (i, window) in table.windows.iter().enumerate() {
            for tap in 0..window.count {
                weights[(window.start + tap * table.step) * count + i] = window.weight as f32;
            }
        }
        let device = x.device();
        let weights = Tensor::<2>::from_data(TensorData::new(weights, [table.input, count]), &device).cast(dtype);
        let moved = x.swap_dims(axis + 2, 4);
        let mut dims = moved.dims();
        let rows = dims[..4].iter().product::<usize>();
        let product = moved.reshape([rows, table.input]).matmul(weights);
        dims[4] = count;
        product.reshape(dims).swap_dims(axis + 2, 4)
    });
    if pooling.scale == 1.0 { x } else { x * pooling.scale }
}
