//! What an update rule sees: one parameter, flat, its gradient and its state.

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor, TensorData};

use super::{Adam, Novograd, OptimError, RmsProp, Sgd};

/// A state tensor: on the parameter's device, or on the host as it was loaded.
#[derive(Clone, Debug)]
enum Slot {
    Device(Tensor<1>),
    Host(TensorData),
}

/// The state of one parameter, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    pub(crate) step: u64,
    tensors: BTreeMap<String, Slot>,
}

impl Slots {
    /// Takes a state tensor to replace it.
    pub(crate) fn take(&mut self, name: &str, device: &Device) -> Option<Tensor<1>> {
        self.tensors.remove(name).map(|slot| match slot {
            Slot::Device(tensor) => tensor,
            Slot::Host(data) => Tensor::from_data(data, device),
        })
    }

    /// Puts a state tensor.
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
    /// Whether the options make sense.
    pub(crate) fn check(&self) -> Result<(), OptimError> {
        match self {
            Rule::Sgd(rule) => rule.check(),
            Rule::Adam(rule) => rule.check(),
            Rule::Novograd(rule) => rule.check(),
            Rule::RmsProp(rule) => rule.check(),
        }
    }

    /// The parameter after one step. `slots.step` counts this step already.
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

    /// The state tensors the rule keeps, and whether each is a scalar.
    pub(crate) fn state_names(&self) -> &'static [(&'static str, bool)] {
        match self {
            Rule::Sgd(_) => &[("momentum_buffer", false)],
            Rule::Adam(_) => &[("exp_avg", false), ("exp_avg_sq", false), ("max_exp_avg_sq", false)],
            Rule::RmsProp(_) => &[("square_avg", false), ("grad_avg", false), ("momentum_buffer", false)],
            Rule::Novograd(_) => &[("exp_avg", false), ("exp_avg_sq", true), ("max_exp_avg_sq", true)],
        }
    }
}
