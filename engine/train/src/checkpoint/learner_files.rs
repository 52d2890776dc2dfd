//! Converts a network with its optimizer to the files of a checkpoint, and back.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor, TensorData};
use hearth_engine::BoxError;
use hearth_nn::networks::Network;
use hearth_nn::optim::{Gradients, OptimizerConfig};
use hearth_nn::weights;
use serde::{Deserialize, Serialize};

use super::tensor_file;
use crate::checkpoint::{Checkpoint, CheckpointError, Files};
use crate::training::grad_scaler::{DeviceScaler, GradScaler};
use crate::training::learner::Learner;

/// The names of a learner's files.
pub(crate) struct Names {
    network: &'static str,
    optimizer: &'static str,
    optimizer_json: &'static str,
    gradients: &'static str,
    scaler: &'static str,
}

/// The network that predicts.
pub(crate) const NETWORK: Names = Names {
    network: "network.safetensors",
    optimizer: "optimizer.safetensors",
    optimizer_json: "optimizer.json",
    gradients: "gradients.safetensors",
    scaler: "scaler.json",
};

/// The discriminator, which distinguishes generated images from real ones.
pub(crate) const DISCRIMINATOR: Names = Names {
    network: "discriminator/network.safetensors",
    optimizer: "discriminator/optimizer.safetensors",
    optimizer_json: "discriminator/optimizer.json",
    gradients: "discriminator/gradients.safetensors",
    scaler: "discriminator/scaler.json",
};

#[derive(Serialize, Deserialize)]
struct OptimizerJson {
    /// The optimizer's options in the recipe.
    config: OptimizerConfig,
    /// The current learning rate, as text: a JSON number may come back with a different last digit.
    learning_rate: String,
    /// The number of batches whose gradients are pending; the gradients are in a separate file.
    #[serde(default, skip_serializing_if = "is_zero")]
    gathered: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Adds a learner's files, read back from the device.
pub(crate) fn collect<N: Network>(files: &mut Files, names: &Names, learner: &Learner<N>) -> Result<(), BoxError> {
    files.insert(names.network.into(), weights::to_bytes(learner.network()?)?);
    files.insert(names.optimizer.into(), tensor_file::to_bytes(&learner.optimizer.state())?);
    let mut gathered = 0;
    if let Some((sum, count)) = &learner.pending {
        let values = sum.iter().map(|(path, gradient)| (path.to_owned(), gradient.to_data())).collect();
        files.insert(names.gradients.into(), tensor_file::to_bytes(&values)?);
        gathered = *count;
    }
    let (config, learning_rate) = (learner.optimizer_config.clone(), learner.learning_rate.to_string());
    let json = OptimizerJson { config, learning_rate, gathered };
    files.insert(names.optimizer_json.into(), serde_json::to_vec_pretty(&json)?);
    if let Some(scaler) = &learner.scaler {
        files.insert(names.scaler.into(), serde_json::to_vec_pretty(&scaler.read().0)?);
    }
    Ok(())
}

/// Reads a learner from a checkpoint; `learner` itself does not change.
pub(crate) fn read<N: Network>(
    checkpoint: &Checkpoint,
    names: &Names,
    learner: &Learner<N>,
    device: &Device,
) -> Result<Learner<N>, BoxError> {
    let mismatch =
        |part: &'static str, why: String| CheckpointError::Mismatch { path: checkpoint.path.clone(), part, why };
    let mut learner = learner.clone();
    let (network, _report) = weights::from_bytes(learner.network()?.clone(), &checkpoint.file(names.network)?)
        .map_err(|e| mismatch(names.network, e.to_string()))?;

    let json: OptimizerJson = serde_json::from_slice(&checkpoint.file(names.optimizer_json)?)
        .map_err(|e| mismatch(names.optimizer_json, format!("it does not parse: {e}")))?;
    if json.config.name() != learner.optimizer_config.name() {
        let (saved, used) = (json.config.name(), learner.optimizer_config.name());
        let why = format!("it is the state of {saved}, this run uses {used}");
        return Err(mismatch(names.optimizer_json, why).into());
    }
    learner.learning_rate = json.learning_rate.parse().map_err(|_| {
        mismatch(names.optimizer_json, format!("the learning rate `{}` is not a number", json.learning_rate))
    })?;
    let state = tensor_file::from_bytes(&checkpoint.file(names.optimizer)?)
        .map_err(|e| mismatch(names.optimizer, e.to_string()))?;
    check_optimizer_state(&network, &state).map_err(|why| mismatch(names.optimizer, why))?;
    learner.optimizer.load_state(state).map_err(|e| mismatch(names.optimizer, e.to_string()))?;

    learner.pending = None;
    if json.gathered > 0 {
        let sums = tensor_file::from_bytes(&checkpoint.file(names.gradients)?)
            .map_err(|e| mismatch(names.gradients, e.to_string()))?;
        check_lengths(&network, sums.iter().map(|(path, data)| (path.as_str(), path.as_str(), data)), false)
            .map_err(|why| mismatch(names.gradients, why))?;
        let sums = sums.into_iter().map(|(path, data)| (path, Tensor::from_data(data, device))).collect();
        learner.pending = Some((Gradients::from_map(sums), json.gathered));
    }
    // A run may be resumed in another precision.
    if learner.scaler.is_some() && checkpoint.has(names.scaler) {
        let scaler: GradScaler = serde_json::from_slice(&checkpoint.file(names.scaler)?)
            .map_err(|e| mismatch(names.scaler, format!("it does not parse: {e}")))?;
        learner.scaler = Some(DeviceScaler::new(scaler, device));
    }
    learner.network = Some(network);
    Ok(learner)
}

/// The lengths of a network's parameters, by path.
#[derive(Default)]
struct Lengths {
    path: Vec<String>,
    by_path: BTreeMap<String, usize>,
}

impl ModuleVisitor for Lengths {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        // Burn reports an enum's variant as if it were a field; the names of parameters omit it.
        if !container_type.starts_with("Enum:") {
            self.path.push(name.to_owned());
        }
    }

    fn exit_module(&mut self, _name: &str, container_type: &str) {
        if !container_type.starts_with("Enum:") {
            self.path.pop();
        }
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.by_path.insert(self.path.join("."), param.lazy_shape().num_elements());
    }
}

/// Checks that every state tensor belongs to a parameter of the network, and has one value or as
/// many as the parameter.
fn check_optimizer_state<N: Module>(network: &N, state: &BTreeMap<String, TensorData>) -> Result<(), String> {
    let path = |key: &'_ str| key.rsplit_once('/').map_or(key.len(), |(path, _)| path.len());
    check_lengths(network, state.iter().map(|(key, data)| (key.as_str(), &key[..path(key)], data)), true)
}

/// Checks that every tensor (key, path of its parameter, values) has as many values as its
/// parameter, or a single one where that is allowed.
fn check_lengths<'a, N: Module>(
    network: &N,
    tensors: impl Iterator<Item = (&'a str, &'a str, &'a TensorData)>,
    one_will_do: bool,
) -> Result<(), String> {
    let mut lengths = Lengths::default();
    network.visit(&mut lengths);
    let mut wrong = Vec::new();
    for (key, path, data) in tensors {
        let found = data.num_elements();
        match lengths.by_path.get(path) {
            None => wrong.push(format!("`{key}` belongs to no parameter of this network")),
            Some(length) if found == *length || (one_will_do && found == 1) => {}
            Some(length) => wrong.push(format!("`{key}` has {found} values, the parameter {length}")),
        }
    }
    const SHOWN: usize = 8;
    match wrong.len() {
        0 => Ok(()),
        n if n <= SHOWN => Err(wrong.join("; ")),
        n => Err(format!("{}; and {} more", wrong[..SHOWN].join("; "), n - SHOWN)),
    }
}
