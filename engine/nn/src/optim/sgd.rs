//! Stochastic gradient descent (`torch.optim.SGD`).

use burn::tensor::Tensor;
use hearth_kernels::update::{self, SgdStep};

use super::OptimError;
use super::rule::Slots;

/// Stochastic gradient descent with momentum, dampening and Nesterov's step (Sutskever et al., ICML 2013).
#[derive(Clone, Debug, PartialEq)]
pub struct Sgd {
    /// Share of the last direction that is kept.
    pub momentum: f64,
    /// Share of the gradient that is held back from the direction.
    pub dampening: f64,
    /// Looks one step ahead along the direction.
    pub nesterov: bool,
}

impl Sgd {
    pub(crate) fn check(&self) -> Result<(), OptimError> {
        if self.momentum < 0.0 {
            return Err(OptimError::value("momentum", self.momentum, "at least 0"));
        }
        if self.nesterov && (self.momentum <= 0.0 || self.dampening != 0.0) {
            return Err(OptimError::value("nesterov", true, "a momentum above 0 and no dampening with it"));
        }
        Ok(())
    }

    pub(crate) fn update(&self, p: Tensor<1>, g: Tensor<1>, slots: &mut Slots, lr: f64, decay: f64) -> Tensor<1> {
        let buffer = if self.momentum == 0.0 { None } else { slots.take("momentum_buffer", &g.device()) };
        let buffer = match buffer {
            // The kernel wants a share that the host knows.
            Some(buffer) if slots.left_out.is_none() && update::has_kernel([&p, &g, &buffer].into_iter()) => {
                let step = SgdStep {
                    lr: lr as f32,
                    weight_decay: decay as f32,
                    momentum: self.momentum as f32,
                    share: (1.0 - self.dampening) as f32,
                    nesterov: self.nesterov,
                };
                let (p, buffer) = update::sgd(p, &g, buffer, step);
                slots.put("momentum_buffer", buffer);
                return p;
            }
            buffer => buffer,
        };
        let g = if decay == 0.0 { g } else { g + p.clone() * decay };
        if self.momentum == 0.0 {
            return p - g * lr;
        }
        let direction = match buffer {
            Some(buffer) => buffer * self.momentum + slots.by_first(1.0, 1.0 - self.dampening).times(g.clone()),
            None => g.clone(),
        };
        slots.put("momentum_buffer", direction.clone());
        let step = if self.nesterov { g + direction * self.momentum } else { direction };
        p - step * lr
    }
}
