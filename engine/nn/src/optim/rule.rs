//! Update rules and their inputs: a flat parameter, its gradient and its state.

use std::collections::BTreeMap;

use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use hearth_kernels::update::decided::{self, Decision};

use super::{Adam, Novograd, OptimError, RmsProp, Sgd};

/// A state tensor, on the parameter's device, or on the host as loaded.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "only a few exist at a time; a tensor's size depends on features")]
enum Slot {
    Device(Tensor<1>),
    Host(TensorData),
}

/// The state of one parameter, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    /// The number of steps, including skipped ones.
    pub(crate) step: u64,
    /// The number of skipped steps, `[1]`, if only the device knows it.
    pub(crate) left_out: Option<Tensor<1>>,
    tensors: BTreeMap<String, Slot>,
}

/// A number that is known on the host or only on the device.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "lives within one step of one parameter")]
pub(crate) enum Scalar {
    Host(f64),
    Device(Tensor<1>),
}

impl Scalar {
    pub(crate) fn map(self, host: impl FnOnce(f64) -> f64, device: impl FnOnce(Tensor<1>) -> Tensor<1>) -> Self {
        match self {
            Scalar::Host(value) => Scalar::Host(host(value)),
            Scalar::Device(value) => Scalar::Device(device(value)),
        }
    }

    pub(crate) fn times(self, tensor: Tensor<1>) -> Tensor<1> {
        match self {
            Scalar::Host(value) => tensor * value,
            Scalar::Device(value) => tensor * value,
        }
    }

    pub(crate) fn under(self, tensor: Tensor<1>) -> Tensor<1> {
        match self {
            Scalar::Host(value) => tensor / value,
            Scalar::Device(value) => tensor / value,
        }
    }
}

impl Slots {
    /// `1 - beta^n` after `n` taken steps, including this one.
    pub(crate) fn correction(&self, beta: f64) -> Scalar {
        let kept = beta.powf(self.step as f64);
        match &self.left_out {
            // 1 - beta^step beta^-left_out, where beta^-left_out - 1 = 2 sinh(h) e^h is precise
            // near 0.
            Some(left_out) if beta > 0.0 => {
                let half = left_out.clone() * (-beta.ln() / 2.0);
                let more = half.clone().sinh() * half.exp() * 2.0;
                Scalar::Device(more * -kept + (1.0 - kept))
            }
            _ => Scalar::Host(1.0 - kept),
        }
    }

    /// A factor: `first` in the first step taken, `later` in all others.
    pub(crate) fn by_first(&self, first: f64, later: f64) -> Scalar {
        match &self.left_out {
            Some(left_out) if first != later => {
                let is_first = left_out.clone().equal_elem(self.step as f64 - 1.0);
                Scalar::Device(left_out.clone().mul_scalar(0.0).add_scalar(later).mask_fill(is_first, first))
            }
            _ => Scalar::Host(later),
        }
    }

    /// Counts a step as skipped unless it was taken.
    pub(crate) fn count_left_out(&mut self, taken: &Tensor<1, Bool>) {
        let this = taken.clone().bool_not().float().cast(DType::F32);
        self.left_out = Some(match self.left_out.take() {
            Some(before) => before + this,
            None => this,
        });
    }

    /// The number of steps taken. May read from the device.
    pub(crate) fn taken(&self) -> u64 {
        let left_out = self.left_out.as_ref().and_then(|count| count.to_data().iter::<f32>().next());
        self.step.saturating_sub(left_out.unwrap_or_default() as u64)
    }

    /// The new state if `taken` (`[1]`) is true; otherwise the previous state, or zeros if there
    /// was none. For every rule, starting with zeros equals starting without state.
    pub(crate) fn where_taken(self, taken: &Tensor<1, Bool>, mut before: Slots, device: &Device) -> Self {
        let Slots { step, left_out, tensors } = self;
        let choose = |(name, slot): (String, Slot)| {
            let slot = match slot {
                Slot::Device(new) => {
                    let old = before.take(&name, device).unwrap_or_else(|| new.zeros_like());
                    let taken = taken.clone().expand(new.dims());
                    Slot::Device(old.mask_where(taken, new))
                }
                host => host,
            };
            (name, slot)
        };
        Slots { step, left_out, tensors: tensors.into_iter().map(choose).collect() }
    }

    /// The input of a kernel that decides about this step, if earlier steps were decided on the
    /// device.
    pub(crate) fn decision(&self, taken: &Tensor<1>) -> Option<Decision> {
        let left_out = self.left_out.clone()?;
        Some(Decision { taken: taken.clone(), left_out, step: self.step })
    }

    /// Removes a state tensor, to be replaced.
    pub(crate) fn take(&mut self, name: &str, device: &Device) -> Option<Tensor<1>> {
        self.tensors.remove(name).map(|slot| match slot {
            Slot::Device(tensor) => tensor,
            Slot::Host(data) => Tensor::from_data(data, device),
        })
    }

    /// Stores a state tensor.
    pub(crate) fn put(&mut self, name: &str, tensor: Tensor<1>) {
        self.tensors.insert(name.to_owned(), Slot::Device(tensor));
    }

    pub(crate) fn load(&mut self, name: &str, data: TensorData) {
        self.tensors.insert(name.to_owned(), Slot::Host(data));
    }

    pub(crate) fn save(&self) -> impl Iterator<Item = (&str, TensorData)> {
        self.tensors.iter().map(|(name, slot)| match slot {
            Slot::Device(tensor) => (name.as_str(), tensor.to_data()),
            Slot::Host(data) => (name.as_str(), data.clone()),
        })
    }

    pub(crate) fn lengths(&self) -> impl Iterator<Item = (&str, usize)> {
        self.tensors.iter().map(|(name, slot)| match slot {
            Slot::Device(tensor) => (name.as_str(), tensor.dims()[0]),
            Slot::Host(data) => (name.as_str(), data.num_elements()),
        })
    }
}

/// An update rule.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    Adam(Adam),
    Novograd(Novograd),
    RmsProp(RmsProp),
    Sgd(Sgd),
}

impl Rule {
    /// Checks the options.
    pub(crate) fn check(&self) -> Result<(), OptimError> {
        match self {
            Rule::Sgd(rule) => rule.check(),
            Rule::Adam(rule) => rule.check(),
            Rule::Novograd(rule) => rule.check(),
            Rule::RmsProp(rule) => rule.check(),
        }
    }

    /// Returns the parameter after one step. `slots.step` already counts this step.
    pub(crate) fn update(
        &self,
        parameter: Tensor<1>,
        gradient: Tensor<1>,
        slots: &mut Slots,
        lr: f64,
        weight_decay: f64,
    ) -> Tensor<1> {
        match self {
            Rule::Sgd(rule) => rule.update(parameter, gradient, slots, lr, weight_decay),
            Rule::Adam(rule) => rule.update(parameter, gradient, slots, lr, weight_decay),
            Rule::Novograd(rule) => rule.update(parameter, gradient, slots, lr, weight_decay),
            Rule::RmsProp(rule) => rule.update(parameter, gradient, slots, lr, weight_decay),
        }
    }

    /// Whether a kernel on the device decides about a step of this parameter within
    /// [`update_where`](Self::update_where): on a GPU, for rules with a kernel, after the first
    /// step.
    pub(crate) fn decides(&self, p: &Tensor<1>, g: &Tensor<1>, slots: &Slots) -> bool {
        let names = match self {
            Rule::Sgd(rule) => rule.kept(),
            Rule::Adam(rule) => rule.kept(),
            Rule::RmsProp(rule) => rule.kept(),
            Rule::Novograd(_) => Vec::new(),
        };
        let state: Option<Vec<&Tensor<1>>> = names
            .iter()
            .map(|name| match slots.tensors.get(*name) {
                Some(Slot::Device(tensor)) => Some(tensor),
                _ => None,
            })
            .collect();
        let Some(state) = state.filter(|state| !state.is_empty()) else { return false };
        let left_out = slots.left_out.iter();
        slots.left_out.is_some() && decided::has_kernel(state.into_iter().chain(left_out).chain([p, g]))
    }

    /// Returns the parameter after one step if `taken` (`[1]`) is not 0, otherwise the unchanged
    /// parameter, and updates its state likewise. [`decides`](Self::decides) must be true.
    pub(crate) fn update_where(
        &self,
        p: Tensor<1>,
        g: &Tensor<1>,
        slots: &mut Slots,
        rates: [f64; 2],
        taken: &Tensor<1>,
    ) -> Tensor<1> {
        let Some(decision) = slots.decision(taken) else { return p };
        match self {
            Rule::Sgd(rule) => rule.update_where(p, g, slots, rates, decision),
            Rule::Adam(rule) => rule.update_where(p, g, slots, rates, decision),
            Rule::RmsProp(rule) => rule.update_where(p, g, slots, rates, decision),
            Rule::Novograd(_) => p,
        }
    }

    /// The state tensors of the rule, and whether each is a scalar.
    pub(crate) fn state_names(&self) -> &'static [(&'static str, bool)] {
        match self {
            Rule::Sgd(_) => &[("momentum_buffer", false)],
            Rule::Adam(_) => &[("exp_avg", false), ("exp_avg_sq", false), ("max_exp_avg_sq", false)],
            Rule::RmsProp(_) => &[("square_avg", false), ("grad_avg", false), ("momentum_buffer", false)],
            Rule::Novograd(_) => &[("exp_avg", false), ("exp_avg_sq", true), ("max_exp_avg_sq", true)],
        }
    }
}
