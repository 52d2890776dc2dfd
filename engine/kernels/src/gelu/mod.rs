//! GELU, forward and backward in one pass each (Hendrycks and Gimpel,
//! <https://arxiv.org/abs/1606.08415>).

mod cpu;
#[cfg(gpu_kernels)]
mod cube;
mod ops;
#[cfg(test)]
mod tests;

use burn::tensor::Tensor;

use crate::place;

/// `x` times the part of a normal distribution below it (`torch.nn.GELU`, not the approximation by
/// tanh).
///
/// Errors are a few units in the last place. Where there is no kernel it is made of Burn's `erf`:
/// Burn's own GELU has the gradient of the approximation by tanh on GPUs (0.22.1), up to a
/// thousandth away.
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if place::takes(&x) {
        return ops::gelu(x);
    }
    (x.clone() * std::f32::consts::FRAC_1_SQRT_2).erf().add_scalar(1.0) * x * 0.5
}
