//! RMSprop (`torch.optim.RMSprop`).

use burn::tensor::Tensor;

use super::OptimError;
use super::rule::Slots;

/// Gradients divided by the root of their mean square (Hinton, Neural Networks for Machine Learning, lecture 6; Graves,
/// <https://arxiv.org/abs/1308.0850>).
#[derive(Clone, Debug, PartialEq)]
pub struct RmsProp {
    /// Decay of the mean square.
    pub alpha: f64,
    /// Added to the denominator.
    pub eps: f64,
    /// Share of the last direction that is kept.
    pub momentum: f64,
    /// Divides by the deviation from the mean rather than by the mean square.
    pub centered: bool,
}

impl RmsProp {
    pub(crate) fn check(&self) -> Result<(), OptimError> {
        for (name, value) in [("alpha", self.alpha), ("eps", self.eps), ("momentum", self.momentum)] {
            if value.is_nan() || value < 0.0 {
                return Err(OptimError::value(name, value, "at least 0"));
            }
        }
        Ok(())
    }

    pub(crate) fn update(&self, p: Tensor<1>, g: Tensor<1>, slots: &mut Slots, lr: f64, decay: f64) -> Tensor<1> {
        let device = p.device();
        let g = if decay == 0.0 { g } else { g + p.clone() * decay };
        let square = g.clone() * g.clone() * (1.0 - self.alpha);
        let square = match slots.take("square_avg", &device) {
            Some(average) => average * self.alpha + square,
            None => square,
        };
        slots.put("square_avg", square.clone());
        let spread = if self.centered {
            let mean = g.clone() * (1.0 - self.alpha);
            let mean = match slots.take("grad_avg", &device) {
                Some(average) => average * self.alpha + mean,
                None => mean,
            };
            slots.put("grad_avg", mean.clone());
            square - mean.clone() * mean
        } else {
            square
        };
        let step = g / (spread.sqrt() + self.eps);
        if self.momentum == 0.0 {
            return p - step * lr;
        }
        let direction = match slots.take("momentum_buffer", &device) {
            Some(buffer) => buffer * self.momentum + step,
            None => step,
        };
        slots.put("momentum_buffer", direction.clone());
        p - direction * lr
    }
}
