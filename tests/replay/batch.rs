//! Arrays of cases as batches `[b, c, x, y, z]` and back.

use burn::tensor::{Device, Tensor, TensorData};
use hearth_tests::golden::{Array, Miss};

/// An array of any rank up to 5 as a tensor; missing axes are 1 at the end.
pub fn tensor(array: &Array, device: &Device) -> Result<Tensor<5>, Miss> {
    if array.shape.len() > 5 {
        return Err(Miss::unsupported(format!("rank {}", array.shape.len())));
    }
    let mut shape = [1; 5];
    shape[..array.shape.len()].copy_from_slice(&array.shape);
    Ok(Tensor::from_data(TensorData::new(array.f32(), shape), device))
}

/// The values of a tensor, row-major.
pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// The first `rank` axes of a shape whose others are 1.
pub fn shape_of<const D: usize>(tensor: &Tensor<D>, rank: usize) -> Vec<usize> {
    tensor.dims().into_iter().take(rank).collect()
}
