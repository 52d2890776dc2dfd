//! Filtering with ordinary tensor operations: for devices without a kernel.

use burn::tensor::{Int, Tensor, TensorData};

use super::Edge;

/// One axis after the other: the padded image, shifted by each tap's offset, weighted and added.
pub(super) fn separable(mut image: Tensor<4>, taps: [&[f32]; 3], edge: Edge) -> Tensor<4> {
    for (axis, taps) in taps.into_iter().enumerate().filter(|(_, taps)| !taps.is_empty()) {
        image = along(image, axis + 1, taps, edge);
    }
    image
}

fn along(image: Tensor<4>, dim: usize, taps: &[f32], edge: Edge) -> Tensor<4> {
    let length = image.dims()[dim];
    let padded = pad(image, dim, taps.len() / 2, edge);
    let mut sum: Option<Tensor<4>> = None;
    for (k, tap) in taps.iter().enumerate().filter(|(_, tap)| **tap != 0.0) {
        let term = padded.clone().narrow(dim, k, length) * *tap;
        sum = Some(match sum {
            Some(sum) => sum + term,
            None => term,
        });
    }
    sum.unwrap_or_else(|| padded.narrow(dim, 0, length) * 0.0)
}

fn pad(image: Tensor<4>, dim: usize, reach: usize, edge: Edge) -> Tensor<4> {
    let device = image.device();
    if edge == Edge::Zeros {
        let mut dims = image.dims();
        dims[dim] = reach;
        let zeros = Tensor::zeros(dims, &device);
        return Tensor::cat(vec![zeros.clone(), image, zeros], dim);
    }
    let length = image.dims()[dim];
    let places: Vec<i32> =
        (0..length + 2 * reach).map(|i| edge.source(i as isize - reach as isize, length).unwrap_or(0) as i32).collect();
    let n = places.len();
    image.select(dim, Tensor::<1, Int>::from_data(TensorData::new(places, [n]), &device))
}
