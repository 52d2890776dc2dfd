//! RMSprop (`torch.optim.RMSprop`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use hearth_kernels::update::decided::{self, Decision};
use hearth_kernels::update::{self, RmsPropStep};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::OptimizerSpec;
use super::rule::Rule;
use super::rule::Slots;
use super::{OptimError, Optimizer, ParameterGroup, check_rate, check_share};

/// RMSprop: gradients are divided by the root of their mean square (Hinton, Neural Networks for
/// Machine Learning, lecture 6; Graves, <https://arxiv.org/abs/1308.0850>).
#[derive(Clone, Debug, PartialEq)]
pub struct RmsProp {
    /// Decay rate of the mean square.
    pub alpha: f64,
    /// Constant added to the denominator.
    pub eps: f64,
    /// Share of the previous direction that is kept.
    pub momentum: f64,
    /// Whether to divide by the deviation from the mean instead of the mean square.
    pub centered: bool,
}

/// Names of the state: mean square, mean, direction.
const NAMES: [&str; 3] = ["square_avg", "grad_avg", "momentum_buffer"];

fn put(slots: &mut Slots, state: [Option<Tensor<1>>; 3]) {
    for (name, tensor) in NAMES.into_iter().zip(state) {
        tensor.into_iter().for_each(|tensor| slots.put(name, tensor));
    }
}

impl RmsProp {
    pub(crate) fn check(&self) -> Result<(), OptimError> {
        check_rate("eps", self.eps)?;
        // At an alpha of 1 the mean square stays 0, and steps are divided by `eps` alone.
        check_share("alpha", self.alpha)?;
        check_share("momentum", self.momentum)
    }

    pub(crate) fn update(&self, p: Tensor<1>, g: Tensor<1>, slots: &mut Slots, lr: f64, decay: f64) -> Tensor<1> {
        let device = p.device();
        let square = slots.take("square_avg", &device);
        let mean = if self.centered { slots.take("grad_avg", &device) } else { None };
        let direction = if self.momentum == 0.0 { None } else { slots.take("momentum_buffer", &device) };
        let state = [square.as_ref(), mean.as_ref(), direction.as_ref()];
        let whole = state.map(|s| s.is_some()) == [true, self.centered, self.momentum != 0.0];
        // A kernel's step can be postponed; if the device decides, its result is read earlier.
        let waits = slots.left_out.is_none();
        let kernel = whole && waits && update::has_kernel(state.into_iter().flatten().chain([&p, &g]));
        let square = match square {
            Some(square) if kernel => {
                let step = self.step(lr, decay);
                let (p, square, mean, direction) = update::rms_prop(p, &g, square, mean, direction, step);
                put(slots, [Some(square), mean, direction]);
                return p;
            }
            square => square,
        };
        let g = if decay == 0.0 { g } else { g + p.clone() * decay };
        let new = g.clone() * g.clone() * (1.0 - self.alpha);
        let square = match square {
            Some(average) => average * self.alpha + new,
            None => new,
        };
        slots.put("square_avg", square.clone());
        let spread = if self.centered {
            let new = g.clone() * (1.0 - self.alpha);
            let mean = match mean {
                Some(average) => average * self.alpha + new,
                None => new,
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
        let direction = match direction {
            Some(buffer) => buffer * self.momentum + step,
            None => step,
        };
        slots.put("momentum_buffer", direction.clone());
        p - direction * lr
    }

    fn step(&self, lr: f64, decay: f64) -> RmsPropStep {
        RmsPropStep {
            lr: lr as f32,
            weight_decay: decay as f32,
            alpha: [self.alpha as f32, (1.0 - self.alpha) as f32],
            eps: self.eps as f32,
            momentum: self.momentum as f32,
        }
    }

    /// The names of the state tensors in use.
    pub(crate) fn kept(&self) -> Vec<&'static str> {
        let which = [true, self.centered, self.momentum != 0.0];
        NAMES.into_iter().zip(which).filter_map(|(name, kept)| kept.then_some(name)).collect()
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
        let kept = self.kept();
        let [square, mean, direction] =
            NAMES.map(|name| if kept.contains(&name) { slots.take(name, &device) } else { None });
        let Some(square) = square else { return p };
        let step = self.step(lr, decay);
        let (p, square, mean, direction, left_out) = decided::rms_prop(p, g, square, mean, direction, step, decision);
        put(slots, [Some(square), mean, direction]);
        slots.left_out = Some(left_out);
        p
    }
}

/// RMSprop, as `torch.optim.RMSprop`.
///
/// ```
/// # use burn::{module::Param, tensor::{Device, Tensor}};
/// # use hearth_nn::optim::{Gradients, OptimizerSpec, RmsPropConfig};
/// # let weight = Tensor::<1>::from_floats([1.0], &Device::default().autodiff());
/// let weight = Param::from_tensor(weight);
/// let gradients = Gradients::of(&weight, &(weight.val() * 2.0).sum());
/// let weight = RmsPropConfig::default().build()?.step(weight, gradients, 0.01)?;
/// assert!((weight.val().into_scalar::<f32>() - 0.9).abs() < 1e-5);
/// # Ok::<(), hearth_nn::optim::OptimError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct RmsPropConfig {
    /// The learning rate from which a schedule starts.
    pub lr: f64,
    /// Decay rate of the running mean of squared gradients.
    pub alpha: f64,
    /// Constant added to denominators.
    pub eps: f64,
    /// Weight decay, which pulls parameters towards 0.
    pub weight_decay: f64,
    /// Share of the previous step that is repeated.
    pub momentum: f64,
    /// Whether to divide by the deviation instead of the mean square.
    pub centered: bool,
    /// Groups of parameters with their own options.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[setters(into)]
    pub groups: Vec<ParameterGroup>,
}

impl Default for RmsPropConfig {
    fn default() -> Self {
        Self { lr: 1e-2, alpha: 0.99, eps: 1e-8, weight_decay: 0.0, momentum: 0.0, centered: false, groups: Vec::new() }
    }
}

impl OptimizerSpec for RmsPropConfig {
    fn lr(&self) -> f64 {
        self.lr
    }

    fn groups(&self) -> &[ParameterGroup] {
        &self.groups
    }

    fn build(&self) -> Result<Optimizer, OptimError> {
        let rule = Rule::RmsProp(RmsProp {
            alpha: self.alpha,
            eps: self.eps,
            momentum: self.momentum,
            centered: self.centered,
        });
        Optimizer::of(rule, self.lr, self.weight_decay, &self.groups)
    }
}

hearth_registry::entry!(
    dyn OptimizerSpec => RmsPropConfig,
    name: "RMSprop",
    aliases: &["rmsprop", "RMSProp"],
    paper: "Hinton 2012, lecture 6e",
    example: "lr = 0.01"
);
