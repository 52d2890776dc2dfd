//! The sums of a sigmoid and a target for overlap losses, binary cross-entropy and the focal loss,
//! in one pass over the logits; the gradients in another.
//!
//! Dice (Milletari et al., <https://arxiv.org/abs/1606.04797>), Tversky and generalized Dice losses
//! with a sigmoid, binary cross-entropy, and the focal loss (Lin et al.,
//! <https://arxiv.org/abs/1708.02002>) are functions of a few sums by item and channel. No
//! intermediate tensor of the logits' size is kept.

mod cpu;
#[cfg(gpu_kernels)]
mod cube;
mod ops;
mod shape;
#[cfg(test)]
mod tests;

use burn::tensor::Tensor;

/// Binary cross-entropy of a logit `x` and a target `t` (0 to 1), and its factors: `w o^gamma e`,
/// where `e = -(pos_weight t log s(x) + (1 - t) log s(-x))`, `w = present t + absent (1 - t)` and
/// `o = s(-x (2t - 1))` is the distance of the prediction from the target; `s` is the sigmoid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Focal {
    /// The exponent that down-weights well-predicted values; 0 for plain cross-entropy.
    pub gamma: f32,
    /// The weight of the positive term within the entropy.
    pub pos_weight: f32,
    /// The weight where the target is 1.
    pub present: f32,
    /// The weight where the target is 0.
    pub absent: f32,
}

impl Default for Focal {
    /// Plain cross-entropy.
    fn default() -> Self {
        Focal { gamma: 0.0, pos_weight: 1.0, present: 1.0, absent: 1.0 }
    }
}

/// Sums over space, by item and channel: `[B, C]` each. `s` is the sigmoid, `t` the target.
#[derive(Clone, Debug)]
pub struct SigmoidSums {
    /// `s t`
    pub both: Tensor<2>,
    /// `s`, or `s^2`
    pub prediction: Tensor<2>,
    /// `t`, or `t^2`
    pub target: Tensor<2>,
    /// The sum of [`Focal`]; 0 where none was requested.
    pub focal: Tensor<2>,
    /// Whether a logit or a target is not finite, or a label is not one of `0..C`.
    pub odd: bool,
}

/// The sums of `logits` `[B, C, X, Y, Z]` and `targets` of the same shape; or, with more than one
/// channel, of class indices `[B, 1, X, Y, Z]`, whose fractions are truncated; a label outside
/// `0..C` belongs to no class. With `squared`, prediction and target are summed as `s^2` and `t^2`.
///
/// `look` requests `odd`, which requires waiting for a GPU; without it `odd` is false on GPUs.
///
/// `None` where there is no kernel: for types other than f32, and for shapes that do not match.
pub fn sigmoid_sums(
    logits: Tensor<5>,
    targets: Tensor<5>,
    squared: bool,
    focal: Option<Focal>,
    look: bool,
) -> Option<SigmoidSums> {
    ops::sigmoid_sums(logits, targets, squared, focal, look)
}
