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

/// `x` times the normal distribution function at `x` (`torch.nn.GELU`, not the approximation by
/// tanh). The shape is unchanged.
///
/// Errors are a few units in the last place. Without a kernel, it is computed with Burn's `erf`: on
/// GPUs, Burn's own GELU (0.22.1) has the gradient of the approximation by tanh, which is off by up
/// to 0.001.
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if place::takes(&x) {
        return ops::gelu(x);
    }
    (x.clone() * std::f32::consts::FRAC_1_SQRT_2).erf().add_scalar(1.0) * x * 0.5
}
