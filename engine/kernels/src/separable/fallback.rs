//! Weighted sums with ordinary tensor operations: for devices without a kernel.

use burn::tensor::{Int, Tensor, TensorData};

use super::AxisTaps;

/// Applies one axis after the other, those that shrink first: each tap is a selection along the
/// axis times its weights.
pub(super) fn separable(mut image: Tensor<4>, axes: &[AxisTaps; 3]) -> Tensor<4> {
    let device = image.device();
    let dims = image.dims();
    let mut order = [0, 1, 2];
    order.sort_by(|a, b| (axes[*a].len() * dims[b + 1]).cmp(&(axes[*b].len() * dims[a + 1])));
    for axis in order {
        let table = &axes[axis];
        if table.is_identity(dims[axis + 1]) {
            continue;
        }
        let size = table.len();
        let (index, weight) = table.lists();
        let mut along = [1; 4];
        along[axis + 1] = size;
        let mut sum: Option<Tensor<4>> = None;
        for k in 0..table.taps() {
            let index: Vec<i32> = index.iter().skip(k).step_by(table.taps()).map(|i| *i as i32).collect();
            let weight: Vec<f32> = weight.iter().skip(k).step_by(table.taps()).copied().collect();
            let mut part =
                image.clone().select(axis + 1, Tensor::<1, Int>::from_data(TensorData::new(index, [size]), &device));
            if weight.iter().any(|w| *w != 1.0) {
                part = part * Tensor::<1>::from_data(TensorData::new(weight, [size]), &device).reshape(along);
            }
            sum = Some(match sum {
                Some(sum) => sum + part,
                None => part,
            });
        }
        if let Some(sum) = sum {
            image = sum;
        }
    }
    image
}
