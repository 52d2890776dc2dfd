//! ReLU and leaky ReLU, of a tensor and of a sum, forward and backward in one pass each, keeping
//! only the output.

mod cpu;
#[cfg(gpu_kernels)]
mod cube;
mod ops;
#[cfg(test)]
mod tests;

use burn::tensor::{Tensor, activation};

use crate::place;

/// Returns `x` where it is positive, `slope x` elsewhere (`torch.nn.LeakyReLU`; ReLU with slope 0); the
/// shape, `[b, c, x, y, z]`, is unchanged.
///
/// For slopes of 0 and above, the sign of the output is that of the input, so only the output is
/// kept for the backward pass; the next layer keeps it anyway. Other slopes and element types use
/// Burn's operations.
pub fn rectify(x: Tensor<5>, slope: f64) -> Tensor<5> {
    if slope >= 0.0 && place::takes(&x) {
        return ops::rectify(x, slope as f32);
    }
    if slope == 0.0 { activation::relu(x) } else { activation::leaky_relu(x, slope) }
}

/// Applies [`rectify`] to the sum of two tensors of one shape: the end of a residual block (He et
/// al., <https://arxiv.org/abs/1512.03385>). With a slope of 1, returns the sum.
///
/// # Panics
/// Where the shapes do not fit, as in Burn's own sum.
pub fn rectified_sum(x: Tensor<5>, y: Tensor<5>, slope: f64) -> Tensor<5> {
    if slope >= 0.0 && x.dims() == y.dims() && x.dtype() == y.dtype() && place::takes(&x) && place::takes(&y) {
        return ops::rectified_sum(x, y, slope as f32);
    }
    let sum = x + y;
    if slope == 1.0 { sum } else { rectify(sum, slope) }
}
