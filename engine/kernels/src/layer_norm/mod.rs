//! Layer norm, forward and backward in one pass each (Ba et al.,
//! <https://arxiv.org/abs/1607.06450>).

mod cpu;
#[cfg(gpu_kernels)]
mod cube;
mod ops;
#[cfg(test)]
mod tests;

use burn::tensor::{Tensor, module};

/// `weight (x - mean) / sqrt(variance + eps) + bias` with mean and biased variance of each row of
/// the last axis of `x`, `[..., features]`; `weight` and `bias` are `[features]`.
///
/// Only `x` is kept for the backward pass. Types other than f32 use Burn's operation.
///
/// # Panics
/// Where the last axis does not have one weight and one bias per feature, as Burn's own operation
/// does.
pub fn layer_norm<const D: usize>(x: Tensor<D>, weight: Tensor<1>, bias: Tensor<1>, eps: f64) -> Tensor<D> {
    if ops::has_kernel(&x, [&weight, &bias]) {
        return ops::layer_norm(x, weight, bias, eps);
    }
    module::layer_norm(x, weight, Some(bias), eps)
}
