//! The cost of a network: parameters, multiply-adds and activations, counted while its own forward
//! pass runs.
//!
//! The count includes convolutions, transposed convolutions, linear layers and the products of
//! attention, as in PyTorch's `FlopCounterMode`. It excludes biases, norms, activations, pooling
//! and interpolation.

mod ledger;
mod stages;

use std::collections::HashMap;

use burn::module::{ModuleVisitor, Param, ParamId};
use burn::tensor::{Int, Tensor};

use crate::named::PathStack;
use crate::networks::{Network, ShapeError};
pub(crate) use ledger::{apart, output, product};

/// A part of a network.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Stage {
    /// The prefix of its parameters' state-dict keys.
    pub name: String,
    /// Shape of the part's last result, `[batch, channels, x, y, z]` or `[batch, tokens,
    /// features]`; empty if it did not run.
    pub output: Vec<usize>,
    /// Number of learned values.
    pub parameters: u64,
    /// Number of multiply-adds.
    pub multiply_adds: u64,
    /// Number of values in the outputs of the part's layers.
    pub activations: u64,
}

impl Stage {
    /// Floating-point operations: two per multiply-add.
    pub fn flops(&self) -> u64 {
        2 * self.multiply_adds
    }

    /// Bytes of the layers' results in f32: approximately what a training step keeps for the
    /// backward pass.
    pub fn activation_bytes(&self) -> u64 {
        4 * self.activations
    }
}

/// The cost of a network for one input.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Cost {
    /// Shape of the input, `[batch, channel, x, y, z]`.
    pub input: [usize; 5],
    /// Shape of every output.
    pub outputs: Vec<[usize; 5]>,
    /// The parts in the order in which they first run, followed by those that do not run in
    /// evaluation.
    pub stages: Vec<Stage>,
    /// The sum of all parts; its output is the first output.
    pub total: Stage,
}

/// A parameter's key and its number of learned values.
struct Learned {
    key: String,
    count: u64,
}

struct Keys<'a, N> {
    net: &'a N,
    path: PathStack,
    found: Vec<(ParamId, Learned)>,
}

impl<N: Network> ModuleVisitor for Keys<'_, N> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let path = self.path.path();
        let key = self.net.torch_name(&path).unwrap_or(path);
        let statistic = key.ends_with("running_mean") || key.ends_with("running_var");
        let count = if statistic { 0 } else { param.lazy_shape().num_elements() as u64 };
        self.found.push((param.id, Learned { key, count }));
    }

    // Counters and constants are not learned.
    fn visit_int<const D: usize>(&mut self, _param: &Param<Tensor<D, Int>>) {}
}

/// The path of a layer: the key without the parameter's name, unless the parameter is the network's
/// own.
fn layer(key: &str) -> &str {
    key.rsplit_once('.').map_or(key, |(layer, _)| layer)
}

/// Runs a pass whose products are not computed.
pub(crate) fn without_products<T>(forward: impl FnOnce() -> T) -> T {
    ledger::while_open(forward).0
}

/// Counts the cost of an evaluation of `input`, in about `rows` parts.
///
/// Products are not computed, which makes this fast. All other operations are computed and need
/// their memory. `input` is `[b, c, x, y, z]`.
///
/// ```
/// # use burn::tensor::Device;
/// # use hearth_nn::cost::cost;
/// # use hearth_nn::networks::UNetConfig;
/// let net = UNetConfig::new(3, 1, 2, &[4, 8], &[2]).init(&Device::default(), 0)?;
/// let found = cost(&net, [1, 1, 8, 8, 8], 10)?;
/// assert_eq!(found.outputs, [[1, 2, 8, 8, 8]]);
/// assert!(found.total.multiply_adds > found.total.parameters);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails if the network does not accept the input.
pub fn cost<N: Network>(net: &N, input: [usize; 5], rows: usize) -> Result<Cost, ShapeError> {
    net.check_input(input)?;
    let net = net.valid();
    let mut keys = Keys { net: &net, path: PathStack::default(), found: Vec::new() };
    net.visit(&mut keys);
    let learned = keys.found;
    let device = net.devices().into_iter().next().unwrap_or_default();
    let x = Tensor::zeros(input, &device);
    let (outputs, entries) = ledger::while_open(|| net.forward_all(x));

    let layers: Vec<&str> = learned.iter().map(|(_, learned)| layer(&learned.key)).collect();
    let names = stages::names(&layers, rows);
    let stage_of = |key: &str| names.iter().position(|name| stages::holds(name, key)).unwrap_or(0);
    let place: HashMap<ParamId, usize> = learned.iter().map(|(id, l)| (*id, stage_of(layer(&l.key)))).collect();
    let blank = |name: &str| Stage {
        name: name.to_owned(),
        output: Vec::new(),
        parameters: 0,
        multiply_adds: 0,
        activations: 0,
    };
    let mut parts: Vec<Stage> = names.iter().map(|name| blank(name)).collect();
    for (id, learned) in &learned {
        parts[place[id]].parameters += learned.count;
    }
    // A layer without parameters belongs to the one before it.
    let (mut order, mut current) = (Vec::new(), 0);
    for entry in entries {
        current = entry.param.and_then(|id| place.get(&id).copied()).unwrap_or(current);
        if !order.contains(&current) {
            order.push(current);
        }
        let Some(part) = parts.get_mut(current) else { continue };
        part.multiply_adds += entry.multiply_adds;
        part.activations += entry.output.iter().product::<usize>() as u64;
        part.output = entry.output;
    }
    order.extend((0..parts.len()).filter(|part| !order.contains(part)).collect::<Vec<_>>());
    let stages: Vec<Stage> = order.into_iter().filter_map(|part| parts.get(part).cloned()).collect();
    let outputs: Vec<[usize; 5]> = outputs.iter().map(Tensor::dims).collect();
    let mut total = blank("");
    total.output = outputs.first().map_or_else(Vec::new, |shape| shape.to_vec());
    for stage in &stages {
        total.parameters += stage.parameters;
        total.multiply_adds += stage.multiply_adds;
        total.activations += stage.activations;
    }
    Ok(Cost { input, outputs, stages, total })
}

/// Multiply-adds of a convolution: every output (every input of a transposed convolution) is
/// multiplied by the whole kernel once.
pub(crate) fn convolution(places: [usize; 3], batch: usize, weight: [usize; 5]) -> u64 {
    places.iter().chain(&weight).fold(batch as u64, |all, n| all * *n as u64)
}
