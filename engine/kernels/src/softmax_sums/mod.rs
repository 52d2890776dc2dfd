//! The sums of a softmax and class indices for overlap losses and cross-entropy, in one pass over
//! the logits; the gradient in another.
//!
//! Dice (Milletari et al., <https://arxiv.org/abs/1606.04797>), Tversky and generalized Dice losses
//! and cross-entropy are functions of a few sums by item and class. The logits are read once for
//! the value and once for the gradient, and no intermediate tensor of their size is kept.

mod cpu;
#[cfg(gpu_kernels)]
mod cube;
mod ops;
mod shape;
#[cfg(test)]
mod tests;

use burn::tensor::Tensor;

/// Sums over space, by item and class: `[B, C]` each. `p` is the softmax over channels; `y` is 1
/// where the label is the class.
#[derive(Clone, Debug)]
pub struct SoftmaxSums {
    /// `p y`
    pub both: Tensor<2>,
    /// `p`, or `p^2`
    pub prediction: Tensor<2>,
    /// `y`; outside the graph.
    pub target: Tensor<2>,
    /// `-y log p`
    pub entropy: Tensor<2>,
    /// Whether a logit is not finite, or a label is not one of `0..C`.
    pub odd: bool,
}

/// The sums of `logits` `[B, C, X, Y, Z]` and the class indices `labels` `[B, 1, X, Y, Z]`, whose
/// fractions are truncated; a label outside `0..C` belongs to no class. With `squared`, the
/// prediction is summed as `p^2`.
///
/// `look` requests `odd`, which requires waiting for a GPU; without it `odd` is false on GPUs.
///
/// `None` where there is no kernel: for types other than f32, and for shapes that do not match.
pub fn softmax_sums(logits: Tensor<5>, labels: Tensor<5>, squared: bool, look: bool) -> Option<SoftmaxSums> {
    ops::softmax_sums(logits, labels, squared, look)
}
