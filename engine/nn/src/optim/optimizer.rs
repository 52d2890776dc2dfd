//! Optimizer steps over all parameters of a network, and the state between steps.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Bool, DType, Tensor, TensorData};
use hearth_kernels::{memory, update};

use super::ParameterGroup;
use super::group::Group;
use super::rule::{Rule, Slots};
use super::{Gradients, OptimError, check_rate};
use crate::named::PathStack;
use crate::networks::Network;
use crate::parameters::{parameters, some_names};

/// An update rule with its parameter groups and state. Built from an
/// [`OptimizerConfig`](super::OptimizerConfig); the [module](super) has an example.
#[derive(Clone, Debug)]
pub struct Optimizer {
    rule: Rule,
    weight_decay: f64,
    groups: Vec<Group>,
    /// The group of each parameter in a group, by path; set when a network is bound.
    group_of: Option<BTreeMap<String, usize>>,
    state: BTreeMap<String, Slots>,
    /// Whether the state has been recorded as the optimizer's memory.
    noted: bool,
}

impl Optimizer {
    /// Checks the options and builds an optimizer with empty state.
    pub(crate) fn of(rule: Rule, lr: f64, weight_decay: f64, groups: &[ParameterGroup]) -> Result<Self, OptimError> {
        check_rate("lr", lr)?;
        rule.check()?;
        check_rate("weight_decay", weight_decay)?;
        let groups: Result<Vec<_>, _> = groups.iter().map(|group| group.build(&rule, lr, weight_decay)).collect();
        Ok(Self::new(rule, weight_decay, groups?))
    }

    fn new(rule: Rule, weight_decay: f64, groups: Vec<Group>) -> Self {
        Optimizer { rule, weight_decay, groups, group_of: None, state: BTreeMap::new(), noted: false }
    }

    /// Assigns each of a network's parameters to a group by the names of its state dict. Without
    /// this, groups match only the paths of module fields. The first matching group applies.
    ///
    /// # Errors
    /// Fails for a group that matches no parameter.
    pub fn bind<N: Network>(&mut self, net: &N) -> Result<(), OptimError> {
        let all = parameters(net);
        if let Some(group) = self.groups.iter().find(|group| !all.iter().any(|one| one.matches(&group.params))) {
            let reason = format!("it matches no parameter of {}; there are {}", net.name(), some_names(&all));
            return Err(OptimError::Group { params: group.params.clone(), reason });
        }
        let group = |one: &crate::ParameterName| self.groups.iter().position(|group| one.matches(&group.params));
        self.group_of = Some(all.iter().filter_map(|one| Some((one.path.clone(), group(one)?))).collect());
        Ok(())
    }

    /// Whether a step at this learning rate changes any of the network's parameters that train: with
    /// [frozen](crate::freeze) ones and groups with a rate of 0, there may be none.
    pub fn moves<N: Network>(&self, net: &N, lr: f64) -> bool {
        // Rates are f32 in the steps of a device.
        parameters(net).iter().any(|one| one.trains && self.options(&one.path, lr).1 as f32 > 0.0)
    }

    /// Returns the network after one step. Parameters without a gradient are unchanged.
    ///
    /// The stored (f32) parameters are updated; the network stays trainable. On an error the
    /// network is lost, because the step takes its parameters by value.
    ///
    /// # Errors
    /// For a gradient or a state of another network: its number of values differs from the parameter's.
    pub fn step<N: Module>(&mut self, net: N, gradients: Gradients, lr: f64) -> Result<N, OptimError> {
        self.run(net, gradients, lr, None)
    }

    /// Returns the network after one step if `taken` (`[1]`) is true, otherwise the unchanged
    /// network. The decision is made on the device, and nothing is read back. A skipped step also
    /// leaves the state unchanged, and is not counted.
    ///
    /// # Errors
    /// Fails as [`step`](Self::step) does.
    pub fn step_where<N: Module>(
        &mut self,
        net: N,
        gradients: Gradients,
        lr: f64,
        taken: &Tensor<1, Bool>,
    ) -> Result<N, OptimError> {
        let number = taken.clone().float().cast(DType::F32);
        self.run(net, gradients, lr, Some(Taken { flag: taken.clone(), number }))
    }

    fn run<N: Module>(&mut self, net: N, gradients: Gradients, lr: f64, taken: Option<Taken>) -> Result<N, OptimError> {
        let mut mapper = Step { optimizer: self, gradients, lr, taken, path: PathStack::default(), error: None };
        let net = update::together(|| net.map(&mut mapper));
        let error = mapper.error;
        if !std::mem::replace(&mut self.noted, true) {
            let values: usize = self.state.values().flat_map(Slots::lengths).map(|(_, length)| length).sum();
            memory::owns("optimizer", values * size_of::<f32>());
        }
        match error {
            Some(error) => Err(error),
            None => Ok(net),
        }
    }

    /// The state: `path/name` to tensor, `path/step` to the number of steps. Reads it back from the
    /// device.
    pub fn state(&self) -> BTreeMap<String, TensorData> {
        let mut all = BTreeMap::new();
        for (path, slots) in &self.state {
            all.insert(format!("{path}/step"), TensorData::from([slots.taken() as i64]));
            for (name, data) in slots.save() {
                all.insert(format!("{path}/{name}"), data);
            }
        }
        all
    }

    /// Restores the result of [`state`](Self::state). Tensors move to the device with the next
    /// step.
    ///
    /// # Errors
    /// If a key or tensor is not of this optimizer; the error names the key.
    pub fn load_state(&mut self, saved: BTreeMap<String, TensorData>) -> Result<(), OptimError> {
        let mut state: BTreeMap<String, Slots> = BTreeMap::new();
        for (key, data) in saved {
            let fail = |reason: String| OptimError::State { key: key.clone(), reason };
            let (path, name) = key.rsplit_once('/').ok_or_else(|| fail("expected `path/name`".to_owned()))?;
            let slots = state.entry(path.to_owned()).or_default();
            if name == "step" {
                let step = data.iter::<i64>().next().filter(|step| *step >= 0);
                slots.step = step.ok_or_else(|| fail("expected a number of steps".to_owned()))? as u64;
                continue;
            }
            match self.rule.state_names().iter().find(|(known, _)| *known == name) {
                None => return Err(fail("this optimizer keeps no such state".to_owned())),
                Some((_, true)) if data.num_elements() != 1 => {
                    return Err(fail(format!("{} values, expected 1", data.num_elements())));
                }
                Some(_) => slots.load(name, data),
            }
        }
        self.state = state;
        Ok(())
    }

    /// Rule, learning rate and weight decay of a parameter.
    fn options(&self, path: &str, lr: f64) -> (&Rule, f64, f64) {
        let group = match &self.group_of {
            Some(groups) => groups.get(path).map(|index| &self.groups[*index]),
            None => self.groups.iter().find(|group| group.matches(path)),
        };
        match group {
            Some(group) => (&group.rule, lr * group.lr_scale, group.weight_decay),
            None => (&self.rule, lr, self.weight_decay),
        }
    }

    fn update(
        &mut self,
        path: String,
        parameter: Tensor<1>,
        gradient: Tensor<1>,
        lr: f64,
        taken: Option<&Taken>,
    ) -> Result<Tensor<1>, OptimError> {
        let count = parameter.dims()[0];
        if gradient.dims() != [count] {
            return Err(OptimError::Gradient { path, got: gradient.dims()[0], expected: count });
        }
        let (rule, lr, weight_decay) = self.options(&path, lr);
        let rule = rule.clone();
        let scalars = self.rule.state_names();
        let slots = self.state.entry(path.clone()).or_default();
        let wrong = slots.lengths().find(|(name, length)| {
            let scalar = scalars.iter().any(|(known, scalar)| known == name && *scalar);
            *length != if scalar { 1 } else { count }
        });
        if let Some((name, length)) = wrong {
            let reason = format!("{length} values, the parameter has {count}");
            return Err(OptimError::State { key: format!("{path}/{name}"), reason });
        }
        slots.step += 1;
        let Some(Taken { flag: taken, number }) = taken else {
            return Ok(rule.update(parameter, gradient, slots, lr, weight_decay));
        };
        if rule.decides(&parameter, &gradient, slots) {
            return Ok(rule.update_where(parameter, &gradient, slots, [lr, weight_decay], number));
        }
        let (before, device) = (slots.clone(), parameter.device());
        slots.count_left_out(taken);
        let updated = rule.update(parameter.clone(), gradient, slots, lr, weight_decay);
        *slots = std::mem::take(slots).where_taken(taken, before, &device);
        Ok(parameter.mask_where(taken.clone().expand([count]), updated))
    }
}

/// The device's decision whether a step is taken, `[1]`: as a boolean, and as 1 or 0.
struct Taken {
    flag: Tensor<1, Bool>,
    number: Tensor<1>,
}

struct Step<'a> {
    optimizer: &'a mut Optimizer,
    gradients: Gradients,
    lr: f64,
    taken: Option<Taken>,
    path: PathStack,
    error: Option<OptimError>,
}

impl ModuleMapper for Step<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let path = self.path.path();
        let Some(gradient) = self.gradients.remove(&path) else {
            return param;
        };
        if self.error.is_some() {
            return param;
        }
        let (id, value, mapper) = param.consume();
        let (trains, autodiff) = (value.is_require_grad(), value.is_autodiff());
        let plain = value.without_autodiff();
        let (shape, count, device) = (plain.dims(), plain.shape().num_elements(), plain.device());
        // Moved, not shared, because a kernel changes the tensor in place.
        let taken = self.taken.as_ref();
        let value = match self.optimizer.update(path, plain.reshape([count]), gradient, self.lr, taken) {
            Ok(updated) => updated.reshape(shape),
            Err(error) => {
                self.error = Some(error);
                // The network is lost.
                Tensor::zeros(shape, &device)
            }
        };
        let value = if autodiff { value.autodiff().set_require_grad(trains) } else { value };
        Param::from_mapped_value(id, value, mapper)
    }
}
