//! Swish, also called SiLU, forward and backward in one pass each (Ramachandran et al.,
//! <https://arxiv.org/abs/1710.05941>).

mod cpu;
#[cfg(gpu_kernels)]
mod cube;
mod ops;
#[cfg(test)]
mod tests;

use burn::tensor::{Tensor, activation};

use crate::place;

/// `x` times the logistic function at `x` (`torch.nn.SiLU`). The shape is unchanged.
///
/// Errors are a few units in the last place. Without a kernel, it is computed with Burn's
/// operations.
pub fn swish<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if place::takes(&x) {
        return ops::swish(x);
    }
    x.clone() * activation::sigmoid(x)
}
