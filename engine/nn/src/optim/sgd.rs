//! Stochastic gradient descent (`torch.optim.SGD`).

use burn::tensor::Tensor;
use hearth_kernels::update::decided::{self, Decision};
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

/// The state: the direction.
const BUFFER: &str = "momentum_buffer";

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
        let buffer = if self.momentum == 0.0 { None } else { slots.take(BUFFER, &g.device()) };
        let buffer = match buffer {
            // The kernel wants a share that the host knows.
            Some(buffer) if slots.left_out.is_none() && update::has_kernel([&p, &g, &buffer].into_iter()) => {
                let (p, buffer) = update::sgd(p, &g, buffer, self.step(lr, decay));
                slots.put(BUFFER, buffer);
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
        slots.put(BUFFER, direction.clone());
        let step = if self.nesterov { g + direction * self.momentum } else { direction };
        p - step * lr
    }

    fn step(&self, lr: f64, decay: f64) -> SgdStep {
        SgdStep {
            lr: lr as f32,
            weight_decay: decay as f32,
            momentum: self.momentum as f32,
            share: (1.0 - self.dampening) as f32,
            nesterov: self.nesterov,
        }
    }

    /// The state that a kernel which decides about the step wants; none without a momentum.
    pub(crate) fn kept(&self) -> Vec<&'static str> {
        if self.momentum == 0.0 { Vec::new() } else { vec![BUFFER] }
    }

    /// Taken or left out, as the device decides.
    pub(crate) fn update_where(
        &self,
        p: Tensor<1>,
        g: &Tensor<1>,
        slots: &mut Slots,
        [lr, decay]: [f64; 2],
        decision: Decision,
    ) -> Tensor<1> {
        let Some(buffer) = slots.take(BUFFER, &g.device()) else { return p };
        let (p, buffer, left_out) = decided::sgd(p, g, buffer, self.step(lr, decay), 1.0, decision);
        slots.put(BUFFER, buffer);
        slots.left_out = Some(left_out);
        p
    }
}
