//! Novograd (`monai.optimizers.Novograd`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use hearth_kernels::update::{self, NovogradStep};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::adam::check_moments;
use super::config::OptimizerSpec;
use super::rule::Rule;
use super::rule::Slots;
use super::{OptimError, Optimizer, ParameterGroup};

/// Novograd (Ginsburg et al., <https://arxiv.org/abs/1905.11286>): gradients are normalized by one
/// second moment per parameter tensor. No bias correction.
#[derive(Clone, Debug, PartialEq)]
pub struct Novograd {
    /// Decay rates of the direction and of the squared norm.
    pub betas: [f64; 2],
    /// Constant added to the denominator.
    pub eps: f64,
    /// Whether the gradient is scaled by `1 - betas[0]`.
    pub grad_averaging: bool,
    /// Whether to divide by the largest norm so far.
    pub amsgrad: bool,
}

impl Novograd {
    pub(crate) fn check(&self) -> Result<(), OptimError> {
        check_moments(self.betas, self.eps)
    }

    pub(crate) fn update(&self, p: Tensor<1>, g: Tensor<1>, slots: &mut Slots, lr: f64, decay: f64) -> Tensor<1> {
        let device = p.device();
        let [beta1, beta2] = self.betas;
        let at_once = update::has_host_kernel([&p, &g].into_iter());
        let norm =
            if at_once { Tensor::from_data([update::square_sum(&g)], &device) } else { (g.clone() * g.clone()).sum() };
        let moment = match slots.take("exp_avg_sq", &device) {
            // A moment of 0 is initialized again. The device decides this, so that the step reads
            // nothing back.
            Some(moment) => {
                let empty = moment.clone().equal_elem(0.0);
                (moment * beta2 + norm.clone() * (1.0 - beta2)).mask_where(empty, norm)
            }
            None => norm,
        };
        slots.put("exp_avg_sq", moment.clone());
        let moment = if self.amsgrad {
            let largest = match slots.take("max_exp_avg_sq", &device) {
                Some(largest) => largest.max_pair(moment),
                None => moment,
            };
            slots.put("max_exp_avg_sq", largest.clone());
            largest
        } else {
            moment
        };
        let norm = moment.sqrt() + self.eps;
        let direction = slots.take("exp_avg", &device);
        let direction = match (direction, hearth_kernels::host::read(&norm, |norm| norm[0])) {
            (Some(direction), Some(norm)) if at_once && update::has_host_kernel([&direction].into_iter()) => {
                let step = NovogradStep {
                    lr: lr as f32,
                    norm,
                    weight_decay: decay as f32,
                    share: if self.grad_averaging { (1.0 - beta1) as f32 } else { 1.0 },
                    momentum: beta1 as f32,
                };
                let (p, direction) = update::novograd(p, &g, direction, step);
                slots.put("exp_avg", direction);
                return p;
            }
            (direction, _) => direction,
        };
        let g = g / norm;
        let g = if decay == 0.0 { g } else { g + p.clone() * decay };
        let g = if self.grad_averaging { g * (1.0 - beta1) } else { g };
        let direction = match direction {
            Some(direction) => direction * beta1 + g,
            None => g,
        };
        slots.put("exp_avg", direction.clone());
        p - direction * lr
    }
}

/// Novograd, as `monai.optimizers.Novograd`.
///
/// ```
/// # use burn::{module::Param, tensor::{Device, Tensor}};
/// # use hearth_nn::optim::{Gradients, OptimizerSpec, NovogradConfig};
/// # let weight = Tensor::<1>::from_floats([1.0], &Device::default().autodiff());
/// let weight = Param::from_tensor(weight);
/// let gradients = Gradients::of(&weight, &(weight.val() * 2.0).sum());
/// let weight = NovogradConfig::default().build()?.step(weight, gradients, 0.1)?;
/// assert!((weight.val().into_scalar::<f32>() - 0.9).abs() < 1e-5);
/// # Ok::<(), hearth_nn::optim::OptimError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct NovogradConfig {
    /// The learning rate from which a schedule starts.
    pub lr: f64,
    /// Decay rates of the running means of gradients and of their squares.
    pub betas: [f64; 2],
    /// Constant added to denominators.
    pub eps: f64,
    /// Weight decay, which pulls parameters towards 0.
    pub weight_decay: f64,
    /// Whether a gradient is weighted by `1 - betas[0]`.
    pub grad_averaging: bool,
    /// Whether to divide by the largest running mean so far (Reddi et al. 2018, arXiv:1904.09237).
    pub amsgrad: bool,
    /// Groups of parameters with their own options.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[setters(into)]
    pub groups: Vec<ParameterGroup>,
}

impl Default for NovogradConfig {
    fn default() -> Self {
        Self {
            lr: 1e-3,
            betas: [0.9, 0.98],
            eps: 1e-8,
            weight_decay: 0.0,
            grad_averaging: false,
            amsgrad: false,
            groups: Vec::new(),
        }
    }
}

impl OptimizerSpec for NovogradConfig {
    fn lr(&self) -> f64 {
        self.lr
    }

    fn groups(&self) -> &[ParameterGroup] {
        &self.groups
    }

    fn build(&self) -> Result<Optimizer, OptimError> {
        let rule = Rule::Novograd(Novograd {
            betas: self.betas,
            eps: self.eps,
            grad_averaging: self.grad_averaging,
            amsgrad: self.amsgrad,
        });
        Optimizer::of(rule, self.lr, self.weight_decay, &self.groups)
    }
}

hearth_registry::entry!(
    dyn OptimizerSpec => NovogradConfig,
    name: "Novograd",
    aliases: &["novograd", "NovoGrad"],
    paper: "Ginsburg et al. 2019, arXiv:1905.11286",
    example: "lr = 0.001"
);
