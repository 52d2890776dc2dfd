//! A matrix for the last axis (`torch.nn.functional.linear`), with a handwritten backward pass.
//!
//! On the CPU the weight is taken as it lies, a panel of it at a time, and used by all rows before the next: transformers of medical images have large
//! matrices and few rows, and there the time goes to bringing the matrix to the processor.

#[cfg(feature = "cpu")]
mod cpu;
#[cfg(feature = "cpu")]
mod ops;
#[cfg(all(test, feature = "cpu"))]
mod tests;

use burn::tensor::{Tensor, module};

/// `x` is `[..., I]`, `weight` `[O, I]`, `bias` `[O]`; gives `[..., O]`.
///
/// # Panics
/// Where the shapes do not fit each other, as Burn's own linear layer does.
pub fn linear<const D: usize>(x: Tensor<D>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<D> {
    #[cfg(feature = "cpu")]
    if ops::on_cpu(&x, &weight, bias.as_ref()) {
        return ops::linear(x, weight, bias);
    }
    module::linear(x, weight.transpose(), bias)
}
