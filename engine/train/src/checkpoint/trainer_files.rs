//! A trainer as the files of a checkpoint, and back.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Tensor, TensorData};
use hearth_engine::{BoxError, CheckpointRequest, Snapshot};
use hearth_nn::networks::Network;
use hearth_nn::optim::{Gradients, OptimizerConfig};
use hearth_nn::weights;
use serde::{Deserialize, Serialize};

use super::{snapshot_files, tensor_file};
use crate::checkpoint::background::Job;
use crate::checkpoint::{self, Checkpoint, CheckpointError, Files, Header};
use crate::training::grad_scaler::{DeviceScaler, GradScaler};
use crate::training::step::Training;

const NETWORK: &str = "network.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const OPTIMIZER_JSON: &str = "optimizer.json";
const GRADIENTS: &str = "gradients.safetensors";
const SCALER: &str = "scaler.json";
const SEED: &str = "rng/seed";

#[derive(Serialize, Deserialize)]
struct OptimizerJson {
    /// As in the recipe.
    config: OptimizerConfig,
    /// The current learning rate, as text: a JSON number may be read back with a different last
    /// digit.
    learning_rate: String,
    /// How many batches' gradients wait for a step; they are in a separate file.
    #[serde(default, skip_serializing_if = "is_zero")]
    gathered: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn evaluator_prefix(name: &str) -> String {
    format!("evaluators/{}/", checkpoint::file_name_of(name))
}

/// Everything of a checkpoint, read back from the device.
pub(crate) fn collect<N: Network>(
    trainer: &Training<N>,
    request: &CheckpointRequest,
    snapshot: &Snapshot,
) -> Result<Job, BoxError> {
    let mut files = Files::new();
    files.insert(NETWORK.into(), weights::to_bytes(trainer.network()?)?);
    files.insert(OPTIMIZER.into(), tensor_file::to_bytes(&trainer.optimizer.state())?);
    let mut gathered = 0;
    if let Some((sum, count)) = &trainer.pending {
        let values = sum.iter().map(|(path, gradient)| (path.to_owned(), gradient.to_data())).collect();
        files.insert(GRADIENTS.into(), tensor_file::to_bytes(&values)?);
        gathered = *count;
    }
    let (config, learning_rate) = (trainer.optimizer_config.clone(), trainer.learning_rate.to_string());
    let json = OptimizerJson { config, learning_rate, gathered };
    files.insert(OPTIMIZER_JSON.into(), serde_json::to_vec_pretty(&json)?);
    if let Some(scaler) = &trainer.scaler {
        files.insert(SCALER.into(), serde_json::to_vec_pretty(&scaler.read().0)?);
    }
    snapshot_files::write(&mut files, "", snapshot)?;
    for (name, evaluator) in &trainer.evaluators {
        snapshot_files::write(&mut files, &evaluator_prefix(name), &evaluator.engine().snapshot())?;
    }
    files.insert(SEED.into(), format!("{}\n", snapshot.state.seed).into_bytes());

    let state = &snapshot.state;
    let header = Header {
        epoch: state.epoch,
        iteration: state.iteration,
        tag: request.tag.clone(),
        best: state.is_best(),
        key_metric: state.key_metric.clone(),
        value: state.key_metric.as_ref().and_then(|name| state.metrics.get(name)).copied(),
    };
    Ok(Job { dir: request.dir.clone(), header, files, keep_last: request.keep_last })
}

/// Restores the newest intact checkpoint. Everything is read and checked before anything changes.
pub(crate) fn read<N: Network>(trainer: &mut Training<N>, dir: &Path) -> Result<Snapshot, BoxError> {
    let checkpoint = checkpoint::newest(dir)?;
    let mismatch =
        |part: &'static str, why: String| CheckpointError::Mismatch { path: checkpoint.path.clone(), part, why };
    let network = trainer.network()?.clone();
    let (network, _report) =
        weights::from_bytes(network, &checkpoint.file(NETWORK)?).map_err(|e| mismatch(NETWORK, e.to_string()))?;

    let json: OptimizerJson = serde_json::from_slice(&checkpoint.file(OPTIMIZER_JSON)?)
        .map_err(|e| mismatch(OPTIMIZER_JSON, format!("it does not parse: {e}")))?;
    if json.config.name() != trainer.optimizer_config.name() {
        let (saved, used) = (json.config.name(), trainer.optimizer_config.name());
        let why = format!("it is the state of {saved}, this run uses {used}");
        return Err(mismatch(OPTIMIZER_JSON, why).into());
    }
    let learning_rate: f64 = json
        .learning_rate
        .parse()
        .map_err(|_| mismatch(OPTIMIZER_JSON, format!("the learning rate `{}` is not a number", json.learning_rate)))?;
    let state =
        tensor_file::from_bytes(&checkpoint.file(OPTIMIZER)?).map_err(|e| mismatch(OPTIMIZER, e.to_string()))?;
    check_optimizer_state(&network, &state).map_err(|why| mismatch(OPTIMIZER, why))?;
    let mut optimizer = trainer.optimizer.clone();
    optimizer.load_state(state).map_err(|e| mismatch(OPTIMIZER, e.to_string()))?;

    let mut pending = None;
    if json.gathered > 0 {
        let sums =
            tensor_file::from_bytes(&checkpoint.file(GRADIENTS)?).map_err(|e| mismatch(GRADIENTS, e.to_string()))?;
        check_lengths(&network, sums.iter().map(|(path, data)| (path.as_str(), path.as_str(), data)), false)
            .map_err(|why| mismatch(GRADIENTS, why))?;
        let device = trainer.options.device.clone().inner();
        let sums = sums.into_iter().map(|(path, data)| (path, Tensor::from_data(data, &device))).collect();
        pending = Some((Gradients::from_map(sums), json.gathered));
    }
    let scaler = match (&trainer.scaler, checkpoint.has(SCALER)) {
        (Some(_), true) => {
            let scaler: GradScaler = serde_json::from_slice(&checkpoint.file(SCALER)?)
                .map_err(|e| mismatch(SCALER, format!("it does not parse: {e}")))?;
            Some(DeviceScaler::new(scaler, &trainer.options.device.clone().inner()))
        }
        // A run may resume in another precision.
        (present, _) => present.clone(),
    };
    let snapshot = snapshot_files::read(&checkpoint, "")?;
    let evaluators = read_evaluators(trainer, &checkpoint)?;

    for (name, snapshot) in evaluators {
        if let Some(evaluator) = trainer.evaluators.get_mut(&name) {
            evaluator.engine_mut().restore(&snapshot)?;
        }
    }
    (trainer.network, trainer.optimizer) = (Some(network), optimizer);
    (trainer.learning_rate, trainer.scaler, trainer.pending) = (learning_rate, scaler, pending);
    tracing::info!("resuming from checkpoint {}", checkpoint.path.display());
    Ok(snapshot)
}

fn read_evaluators<N>(
    trainer: &Training<N>,
    checkpoint: &Checkpoint,
) -> Result<BTreeMap<String, Snapshot>, CheckpointError> {
    let mut snapshots = BTreeMap::new();
    for name in trainer.evaluators.keys() {
        let prefix = evaluator_prefix(name);
        if checkpoint.has(&format!("{prefix}engine.json")) {
            snapshots.insert(name.clone(), snapshot_files::read(checkpoint, &prefix)?);
        }
    }
    Ok(snapshots)
}

/// The lengths of a network's parameters.
#[derive(Default)]
struct Lengths {
    path: Vec<String>,
    by_path: BTreeMap<String, usize>,
}

impl ModuleVisitor for Lengths {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        // Burn reports an enum's variant as if it were a field; names of parameters do not have it.
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

/// Every state tensor must belong to a parameter of the network and have one value, or one for each
/// of its values.
fn check_optimizer_state<N: Module>(network: &N, state: &BTreeMap<String, TensorData>) -> Result<(), String> {
    let path = |key: &'_ str| key.rsplit_once('/').map_or(key.len(), |(path, _)| path.len());
    check_lengths(network, state.iter().map(|(key, data)| (key.as_str(), &key[..path(key)], data)), true)
}

/// Every tensor (key, path of its parameter, values) must have one value for each of its
/// parameter's; or one for all, where it may.
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
