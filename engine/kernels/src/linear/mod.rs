//! A matrix for the last axis (`torch.nn.functional.linear`), with a handwritten backward pass.
//!
//! On the CPU, the weight is read in its own layout, one panel at a time, and all rows use a panel
//! before the next one: transformers of medical images have large matrices and few rows, so that
//! loading the matrix dominates.

mod cpu;
mod ops;
#[cfg(test)]
mod tests;

use burn::tensor::{DType, Tensor, module};

use crate::cast::{cast, half_on_cpu};

/// Applies a linear layer: `x` is `[..., I]`, `weight` `[O, I]`, `bias` `[O]`; returns `[..., O]`.
///
/// # Panics
/// Where the shapes do not fit each other, as in Burn's own linear layer.
pub fn linear<const D: usize>(x: Tensor<D>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<D> {
    if ops::on_cpu(&x, &weight, bias.as_ref()) {
        return ops::linear(x, weight, bias);
    }
    if let Some(dtype) = half_on_cpu(&x) {
        let bias = bias.map(|bias| cast(bias, DType::F32));
        return cast(linear(cast(x, DType::F32), cast(weight, DType::F32), bias), dtype);
    }
    module::linear(x, weight.transpose(), bias)
}
