//! Stochastic gradient descent (`torch.optim.SGD`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use hearth_kernels::update::decided::{self, Decision};
use hearth_kernels::update::{self, SgdStep};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::OptimizerSpec;
use super::rule::Rule;
use super::rule::Slots;
use super::{OptimError, Optimizer, ParameterGroup, check_share};

/// Stochastic gradient descent with momentum, dampening and Nesterov's step (Sutskever et al., ICML
/// 2013).
#[derive(Clone, Debug, PartialEq)]
pub struct Sgd {
    /// Share of the previous direction that is kept.
    pub momentum: f64,
    /// Share of the gradient that is excluded from the direction.
    pub dampening: f64,
    /// Whether to use Nesterov's look-ahead along the direction.
    pub nesterov: bool,
}

/// Name of the state: the direction.
const BUFFER: &str = "momentum_buffer";

impl Sgd {
    pub(crate) fn check(&self) -> Result<(), OptimError> {
        // At 1 the steps add up without end; with a dampening of 1 the first gradient is repeated for ever.
        for (name, share) in [("momentum", self.momentum), ("dampening", self.dampening)] {
            check_share(name, share)?;
        }
        if self.nesterov && (self.momentum <= 0.0 || self.dampening != 0.0) {
            return Err(OptimError::value("nesterov", true, "a momentum above 0 and no dampening with it"));
        }
        Ok(())
    }

    pub(crate) fn update(&self, p: Tensor<1>, g: Tensor<1>, slots: &mut Slots, lr: f64, decay: f64) -> Tensor<1> {
        let buffer = if self.momentum == 0.0 { None } else { slots.take(BUFFER, &g.device()) };
        let buffer = match buffer {
            // The kernel needs a gradient share that is known on the host.
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

    /// Names of the state tensors that a deciding kernel needs; empty without momentum.
    pub(crate) fn kept(&self) -> Vec<&'static str> {
        if self.momentum == 0.0 { Vec::new() } else { vec![BUFFER] }
    }

    /// The update, taken or skipped as the device decides.
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

/// Stochastic gradient descent with momentum, as `torch.optim.SGD`.
///
/// ```
/// # use burn::{module::Param, tensor::{Device, Tensor}};
/// # use hearth_nn::optim::{Gradients, OptimizerSpec, SgdConfig};
/// # let weight = Tensor::<1>::from_floats([1.0], &Device::default().autodiff());
/// let weight = Param::from_tensor(weight);
/// let gradients = Gradients::of(&weight, &(weight.val() * 2.0).sum());
/// let weight = SgdConfig::default().build()?.step(weight, gradients, 0.1)?;
/// assert!((weight.val().into_scalar::<f32>() - 0.8).abs() < 1e-5);
/// # Ok::<(), hearth_nn::optim::OptimError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct SgdConfig {
    /// The learning rate from which a schedule starts.
    pub lr: f64,
    /// Share of the previous step that is repeated.
    pub momentum: f64,
    /// Share of the gradient that is excluded from the momentum.
    pub dampening: f64,
    /// Weight decay, which pulls parameters towards 0.
    pub weight_decay: f64,
    /// Whether to use Nesterov's look-ahead along the momentum.
    pub nesterov: bool,
    /// Groups of parameters with their own options.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[setters(into)]
    pub groups: Vec<ParameterGroup>,
}

impl Default for SgdConfig {
    fn default() -> Self {
        Self { lr: 1e-3, momentum: 0.0, dampening: 0.0, weight_decay: 0.0, nesterov: false, groups: Vec::new() }
    }
}

impl OptimizerSpec for SgdConfig {
    fn lr(&self) -> f64 {
        self.lr
    }

    fn groups(&self) -> &[ParameterGroup] {
        &self.groups
    }

    fn build(&self) -> Result<Optimizer, OptimError> {
        let rule = Rule::Sgd(Sgd { momentum: self.momentum, dampening: self.dampening, nesterov: self.nesterov });
        Optimizer::of(rule, self.lr, self.weight_decay, &self.groups)
    }
}

hearth_registry::entry!(
    dyn OptimizerSpec => SgdConfig,
    name: "SGD",
    aliases: &["Sgd", "sgd"],
    paper: "Sutskever et al. 2013, ICML",
    example: "lr = 0.2\nmomentum = 0.9"
);
