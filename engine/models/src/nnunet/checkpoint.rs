//! The checkpoint of a fold: its weights, and its facts for prediction.

use std::path::Path;

use burn::tensor::Device;
use hearth_nn::layers::awaiting_weights;
use hearth_nn::networks::AnyNetwork;
use hearth_nn::pytorch::{OpenOptions, StateDict};
use hearth_nn::weights;
use hearth_nnunet::{Architecture, Configuration, ModelFolder};
use serde_json::Value;

use crate::nnunet::network;
use hearth_recipe::{Context, Outcome, RecipeError};

/// An opened checkpoint; its weights are read last.
pub(crate) struct Checkpoint {
    weights: StateDict,
    /// The configuration that was trained.
    configuration: Option<String>,
    /// The axes that may be mirrored; empty for a model that was trained without mirroring.
    pub mirroring: Vec<usize>,
}

impl Checkpoint {
    /// Opens a checkpoint file of nnU-Net.
    pub fn open(path: &Path) -> Outcome<Self> {
        let key = Some("network_weights".to_owned());
        let mut weights = StateDict::open(path, &OpenOptions { key })?;
        // Blocks store their layers twice, and the decoder contains the encoder.
        weights.retain(|key| !key.contains(".all_modules.") && !key.starts_with("decoder.encoder."));
        let axes = weights.value(&["inference_allowed_mirroring_axes"]).unwrap_or(Value::Null);
        let mirroring = match axes {
            Value::Null => Vec::new(),
            value => serde_json::from_value(value.clone()).map_err(|_| {
                let what = format!("inference_allowed_mirroring_axes is {value}; expected axes or None");
                RecipeError::new(format!("{}: {what}", path.display()))
            })?,
        };
        let configuration = weights.value(&["init_args", "configuration"]);
        let configuration = configuration.and_then(|value| value.as_str().map(str::to_owned));
        Ok(Checkpoint { weights, configuration, mirroring })
    }

    /// The configuration that was trained, by the checkpoint at `path`, else by the name of the
    /// model's folder.
    ///
    /// # Errors
    /// If neither names one of the plans.
    pub fn configuration(&self, folder: &ModelFolder, path: &Path) -> Outcome<Configuration> {
        let name = self.configuration.clone().or_else(|| configuration_of(&folder.path));
        let name = name
            .ok_or_else(|| RecipeError::new(format!("{} does not say which configuration it is of", path.display())))?;
        let doing = || folder.path.join("plans.json").display().to_string();
        folder.plans.configuration(&name).while_doing(doing)
    }

    /// The network with these weights.
    pub fn network(
        &self,
        architecture: &Architecture,
        channels: [usize; 2],
        path: &Path,
        device: &Device,
    ) -> Outcome<AnyNetwork> {
        let doing = || format!("cannot load {}", path.display());
        let batch_norm = self.weights.keys().any(|key| key.ends_with(".norm.running_mean"));
        let net = awaiting_weights(|| network::build(architecture, channels, batch_norm, device)).while_doing(doing)?;
        let bytes = self.weights.to_bytes().while_doing(doing)?;
        Ok(weights::from_bytes(net, &bytes).while_doing(doing)?.0)
    }
}

/// The configuration in the folder's name: `TRAINER__PLANS__CONFIGURATION`.
fn configuration_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    let parts: Vec<&str> = name.split("__").collect();
    (parts.len() == 3).then(|| parts[2].to_owned())
}
