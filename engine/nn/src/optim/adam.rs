//! Adam and AdamW (`torch.optim.Adam`, `torch.optim.AdamW`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use hearth_kernels::update::decided::{self, Decision};
use hearth_kernels::update::{self, AdamStep};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::OptimizerSpec;
use super::rule::Rule;
use super::rule::Slots;
use super::{OptimError, Optimizer, ParameterGroup, check_rate};

/// Adam (Kingma and Ba, <https://arxiv.org/abs/1412.6980>), optionally AMSGrad
/// (<https://openreview.net/forum?id=ryQu7f-RZ>), optionally with decoupled weight decay
/// (Loshchilov and Hutter, <https://arxiv.org/abs/1711.05101>).
#[derive(Clone, Debug, PartialEq)]
pub struct Adam {
    /// Decay rates of the mean and of the mean square.
    pub betas: [f64; 2],
    /// Constant added to the denominator.
    pub eps: f64,
    /// Whether to divide by the largest mean square so far.
    pub amsgrad: bool,
    /// Whether the weights decay directly, instead of through the gradient (AdamW).
    pub decoupled: bool,
}

/// Checks the shared options of Adam and Novograd.
pub(crate) fn check_moments(betas: [f64; 2], eps: f64) -> Result<(), OptimError> {
    if betas.iter().any(|beta| !(0.0..1.0).contains(beta)) {
        return Err(OptimError::value("betas", betas, "two numbers in [0, 1)"));
    }
    check_rate("eps", eps)
}

/// Names of the state: mean, mean square, largest mean square.
const NAMES: [&str; 3] = ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"];

impl Adam {
    pub(crate) fn check(&self) -> Result<(), OptimError> {
        check_moments(self.betas, self.eps)
    }

    pub(crate) fn update(&self, p: Tensor<1>, g: Tensor<1>, slots: &mut Slots, lr: f64, decay: f64) -> Tensor<1> {
        let device = p.device();
        let [beta1, beta2] = self.betas;
        let state: Vec<Option<Tensor<1>>> = self.kept().iter().map(|name| slots.take(name, &device)).collect();
        let whole = state.iter().all(Option::is_some);
        // The kernel needs bias corrections that are known on the host.
        if whole && slots.left_out.is_none() && update::has_kernel(state.iter().flatten().chain([&p, &g])) {
            return self.in_one_pass(p, &g, state.into_iter().flatten(), slots, [lr, decay]);
        }
        let mut state = state.into_iter();
        let (p, g) = match (decay == 0.0, self.decoupled) {
            (true, _) => (p, g),
            (false, true) => (p * (1.0 - lr * decay), g),
            (false, false) => {
                let g = g + p.clone() * decay;
                (p, g)
            }
        };
        let square = g.clone() * g.clone();
        let mean = match state.next().flatten() {
            Some(mean) => mean.clone() + (g - mean) * (1.0 - beta1),
            None => g * (1.0 - beta1),
        };
        let mean_square = match state.next().flatten() {
            Some(mean_square) => mean_square * beta2 + square * (1.0 - beta2),
            None => square * (1.0 - beta2),
        };
        slots.put("exp_avg", mean.clone());
        slots.put("exp_avg_sq", mean_square.clone());
        let largest = if self.amsgrad {
            let largest = match state.next().flatten() {
                Some(largest) => largest.max_pair(mean_square),
                None => mean_square,
            };
            slots.put("max_exp_avg_sq", largest.clone());
            largest
        } else {
            mean_square
        };
        let (correction1, correction2) = (slots.correction(beta1), slots.correction(beta2));
        let denominator = correction2.map(f64::sqrt, Tensor::sqrt).under(largest.sqrt()) + self.eps;
        let rate = correction1.map(|c| lr / c, |c| c.recip() * lr);
        p - rate.times(mean / denominator)
    }

    /// The same update by a kernel, after the first step.
    fn in_one_pass(
        &self,
        p: Tensor<1>,
        g: &Tensor<1>,
        mut state: impl Iterator<Item = Tensor<1>>,
        slots: &mut Slots,
        [lr, decay]: [f64; 2],
    ) -> Tensor<1> {
        let [beta1, beta2] = self.betas;
        let count = slots.step as f64;
        let (correction1, correction2) = (1.0 - beta1.powf(count), 1.0 - beta2.powf(count));
        let raw = self.step(lr, decay);
        let step = AdamStep { lr: (lr / correction1) as f32, correction: correction2.sqrt() as f32, ..raw };
        let (Some(mean), Some(square)) = (state.next(), state.next()) else { return p };
        let (p, [mean, square], largest) = update::adam(p, g, [mean, square], state.next(), step);
        for (name, tensor) in NAMES.into_iter().zip([Some(mean), Some(square), largest]) {
            tensor.into_iter().for_each(|tensor| slots.put(name, tensor));
        }
        p
    }

    /// The step without bias corrections.
    fn step(&self, lr: f64, decay: f64) -> AdamStep {
        AdamStep {
            lr: lr as f32,
            shrink: if self.decoupled { (1.0 - lr * decay) as f32 } else { 1.0 },
            weight_decay: if self.decoupled { 0.0 } else { decay as f32 },
            betas: self.betas.map(|beta| [beta as f32, (1.0 - beta) as f32]),
            correction: 1.0,
            eps: self.eps as f32,
        }
    }

    /// Names of the state tensors in use.
    pub(crate) fn kept(&self) -> Vec<&'static str> {
        if self.amsgrad { NAMES.to_vec() } else { NAMES[..2].to_vec() }
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
        let device = g.device();
        let mut state = self.kept().into_iter().filter_map(|name| slots.take(name, &device));
        let (Some(mean), Some(square), largest) = (state.next(), state.next(), state.next()) else { return p };
        let logarithms = self.betas.map(|beta| beta.ln() as f32);
        let (p, [mean, square], largest, left_out) =
            decided::adam(p, g, [mean, square], largest, self.step(lr, decay), logarithms, decision);
        for (name, tensor) in NAMES.into_iter().zip([Some(mean), Some(square), largest]) {
            tensor.into_iter().for_each(|tensor| slots.put(name, tensor));
        }
        slots.left_out = Some(left_out);
        p
    }
}

/// Adam, as `torch.optim.Adam`.
///
/// ```
/// # use burn::{module::Param, tensor::{Device, Tensor}};
/// # use hearth_nn::optim::{Gradients, OptimizerSpec, AdamConfig};
/// # let weight = Tensor::<1>::from_floats([1.0], &Device::default().autodiff());
/// let weight = Param::from_tensor(weight);
/// let gradients = Gradients::of(&weight, &(weight.val() * 2.0).sum());
/// let weight = AdamConfig::default().build()?.step(weight, gradients, 0.1)?;
/// assert!((weight.val().into_scalar::<f32>() - 0.9).abs() < 1e-5);
/// # Ok::<(), hearth_nn::optim::OptimError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct AdamConfig {
    /// The learning rate from which a schedule starts.
    pub lr: f64,
    /// Decay rates of the running means of gradients and of their squares.
    pub betas: [f64; 2],
    /// Constant added to denominators.
    pub eps: f64,
    /// Weight decay, which pulls parameters towards 0.
    pub weight_decay: f64,
    /// Whether to divide by the largest running mean so far (Reddi et al. 2018, arXiv:1904.09237).
    pub amsgrad: bool,
    /// Groups of parameters with their own options.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[setters(into)]
    pub groups: Vec<ParameterGroup>,
}

impl Default for AdamConfig {
    fn default() -> Self {
        Self { lr: 1e-3, betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.0, amsgrad: false, groups: Vec::new() }
    }
}

impl OptimizerSpec for AdamConfig {
    fn lr(&self) -> f64 {
        self.lr
    }

    fn groups(&self) -> &[ParameterGroup] {
        &self.groups
    }

    fn build(&self) -> Result<Optimizer, OptimError> {
        let rule = Rule::Adam(Adam { betas: self.betas, eps: self.eps, amsgrad: self.amsgrad, decoupled: false });
        Optimizer::of(rule, self.lr, self.weight_decay, &self.groups)
    }
}

hearth_registry::entry!(
    dyn OptimizerSpec => AdamConfig,
    name: "Adam",
    aliases: &["adam"],
    paper: "Kingma and Ba 2015, arXiv:1412.6980",
    example: "lr = 0.0001"
);

/// Adam with decoupled weight decay, as `torch.optim.AdamW`.
///
/// ```
/// # use burn::{module::Param, tensor::{Device, Tensor}};
/// # use hearth_nn::optim::{Gradients, OptimizerSpec, AdamWConfig};
/// # let weight = Tensor::<1>::from_floats([1.0], &Device::default().autodiff());
/// let weight = Param::from_tensor(weight);
/// let gradients = Gradients::of(&weight, &(weight.val() * 2.0).sum());
/// let weight = AdamWConfig::default().weight_decay(0.1).build()?.step(weight, gradients, 0.1)?;
/// assert!((weight.val().into_scalar::<f32>() - 0.89).abs() < 1e-5);
/// # Ok::<(), hearth_nn::optim::OptimError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct AdamWConfig {
    /// The learning rate from which a schedule starts.
    pub lr: f64,
    /// Decay rates of the running means of gradients and of their squares.
    pub betas: [f64; 2],
    /// Constant added to denominators.
    pub eps: f64,
    /// Weight decay, which pulls parameters towards 0.
    pub weight_decay: f64,
    /// Whether to divide by the largest running mean so far (Reddi et al. 2018, arXiv:1904.09237).
    pub amsgrad: bool,
    /// Groups of parameters with their own options.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[setters(into)]
    pub groups: Vec<ParameterGroup>,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        Self { lr: 1e-3, betas: [0.9, 0.999], eps: 1e-8, weight_decay: 1e-2, amsgrad: false, groups: Vec::new() }
    }
}

impl OptimizerSpec for AdamWConfig {
    fn lr(&self) -> f64 {
        self.lr
    }

    fn groups(&self) -> &[ParameterGroup] {
        &self.groups
    }

    fn build(&self) -> Result<Optimizer, OptimError> {
        let rule = Rule::Adam(Adam { betas: self.betas, eps: self.eps, amsgrad: self.amsgrad, decoupled: true });
        Optimizer::of(rule, self.lr, self.weight_decay, &self.groups)
    }
}

hearth_registry::entry!(
    dyn OptimizerSpec => AdamWConfig,
    name: "AdamW",
    aliases: &["adamw"],
    paper: "Loshchilov and Hutter 2019, arXiv:1711.05101",
    example: "lr = 0.0004\nweight_decay = 0.00001"
);
