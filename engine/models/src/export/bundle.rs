//! A run as a bundle that MONAI runs.

use std::path::{Path, PathBuf};

use hearth_nnunet::checkpoint::{Weight, write_state_dict};
use hearth_registry::Document;
use hearth_train::RunFolder;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Map, Value, json};

use crate::export::steps;
use hearth_recipe::recipe::{Output, Recipe};
use hearth_recipe::{Context, Outcome, RecipeError};
use hearth_run::checkpoint_file;
use hearth_run::folders::replace;

/// Networks that MONAI builds of the same parameters.
const NETWORKS: [&str; 14] = [
    "UNet",
    "BasicUNet",
    "BasicUNetPlusPlus",
    "DynUNet",
    "SegResNet",
    "SegResNetVAE",
    "VNet",
    "AttentionUnet",
    "AHNet",
    "HighResNet",
    "UNETR",
    "SwinUNETR",
    "AutoEncoder",
    "SegResNetDS",
];

/// The version of MONAI whose names are used.
const MONAI: &str = "1.6.1";

/// What of a run is exported.
#[derive(Clone, Debug)]
pub struct BundleOptions {
    /// `best`, `latest` or the name of a checkpoint's folder.
    pub checkpoint: String,
    /// The text of its licence; by default one that grants nothing.
    pub license: Option<String>,
}

impl Default for BundleOptions {
    fn default() -> Self {
        BundleOptions { checkpoint: "best".to_owned(), license: None }
    }
}

/// Writes `configs/metadata.json`, `configs/inference.json`, `configs/logging.conf`, `models/model.pt`,
/// `docs/README.md` and `LICENSE` to a folder, and returns the files. `python -m monai.bundle run
/// --config_file configs/inference.json --dataset_dir DIR` then segments the images of a folder as
/// `hearth predict` does; regions become a channel each.
///
/// # Errors
/// A run that learns no segmentation, a network, transform or inferer that MONAI does not have, and
/// files that cannot be read or written.
pub fn bundle(folder: &RunFolder, out: &Path, options: &BundleOptions) -> Outcome<Vec<PathBuf>> {
    let doing = || format!("cannot export {} as a bundle", folder.root().display());
    let recipe = Recipe::read(&Document::open(&folder.recipe())?)?;
    let inference = inference(&recipe).while_doing(doing)?;
    let metadata = metadata(&recipe)?;
    let (checkpoint, bytes) = checkpoint_file(folder, &options.checkpoint)?;
    let make = |path: &Path| {
        std::fs::create_dir_all(path).while_doing(|| format!("cannot make the folder {}", path.display()))
    };
    for part in ["configs", "models", "docs"] {
        make(&out.join(part))?;
    }
    let weights = out.join("models/model.pt");
    write_weights(&weights, &bytes).while_doing(doing)?;
    let mut files = vec![weights];
    let mut write = |name: &str, text: String| -> Outcome {
        let path = out.join(name);
        replace(&path, text)?;
        files.push(path);
        Ok(())
    };
    write("configs/metadata.json", serde_json::to_string_pretty(&metadata)? + "\n")?;
    write("configs/logging.conf", LOGGING.to_owned())?;
    write("docs/README.md", readme(&recipe, &checkpoint))?;
    write("LICENSE", options.license.clone().unwrap_or_else(|| LICENSE.to_owned()))?;
    // The last one: without it nothing runs.
    write("configs/inference.json", serde_json::to_string_pretty(&inference)? + "\n")?;
    files.reverse();
    Ok(files)
}

/// The state dict, by MONAI's names.
fn write_weights(path: &Path, bytes: &[u8]) -> Outcome {
    let read = |error: safetensors::SafeTensorError| RecipeError::new(format!("the weights: {error}"));
    let file = SafeTensors::deserialize(bytes).map_err(read)?;
    let tensors = file.tensors();
    let mut weights = Vec::with_capacity(tensors.len());
    for (name, view) in &tensors {
        let integers = match view.dtype() {
            Dtype::F32 => false,
            Dtype::I64 => true,
            other => return Err(RecipeError::new(format!("{name} is {other:?}; expected F32 or I64"))),
        };
        weights.push(Weight { name, shape: view.shape(), values: view.data(), integers });
    }
    Ok(write_state_dict(path, &weights)?)
}

/// `configs/inference.json`.
fn inference(recipe: &Recipe) -> Outcome<Value> {
    let network = network(recipe)?;
    let (activations, discrete) = match recipe.output() {
        Output::Labels => (json!({"softmax": true}), json!({"argmax": true})),
        Output::Regions => (json!({"sigmoid": true}), json!({"threshold": 0.5})),
        Output::Scores | Output::Image => {
            let what = "it learns numbers or images, and a bundle is made of segmentations";
            return Err(RecipeError::new(what));
        }
    };
    let entry = |target: &str, parameters: Value| {
        let mut all = Map::from_iter([("_target_".to_owned(), json!(target)), ("keys".to_owned(), json!("pred"))]);
        all.extend(parameters.as_object().cloned().unwrap_or_default());
        Value::Object(all)
    };
    let (activations, discrete) = (entry("Activationsd", activations), entry("AsDiscreted", discrete));
    let mut post = steps::postprocessing(recipe, &activations, discrete)?;
    post.push(json!({
        "_target_": "SaveImaged", "keys": "pred", "output_dir": "@output_dir", "output_postfix": "seg",
        "output_dtype": "$np.uint8", "resample": false, "separate_folder": false,
    }));
    Ok(json!({
        "imports": ["$import glob", "$import os", "$import numpy as np", "$import torch"],
        "bundle_root": ".",
        "dataset_dir": "$@bundle_root + '/data'",
        "output_dir": "$@bundle_root + '/eval'",
        "datalist": "$[{'image': path} for path in sorted(glob.glob(os.path.join(@dataset_dir, '*.nii.gz')))]",
        "device": "$torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')",
        "network_def": network,
        "network": "$@network_def.to(@device)",
        "preprocessing": { "_target_": "Compose", "transforms": steps::preprocessing(recipe)? },
        "dataset": { "_target_": "Dataset", "data": "@datalist", "transform": "@preprocessing" },
        "dataloader": {
            "_target_": "DataLoader", "dataset": "@dataset", "batch_size": 1, "shuffle": false, "num_workers": 0,
        },
        "inferer": inferer(recipe)?,
        "postprocessing": { "_target_": "Compose", "transforms": post },
        "checkpointloader": {
            "_target_": "CheckpointLoader", "load_path": "$@bundle_root + '/models/model.pt'",
            "load_dict": { "model": "@network" }, "map_location": "@device",
        },
        "handlers": ["@checkpointloader"],
        "evaluator": {
            "_target_": "SupervisedEvaluator", "device": "@device", "val_data_loader": "@dataloader",
            "network": "@network", "inferer": "@inferer", "postprocessing": "@postprocessing",
            "val_handlers": "@handlers", "amp": false,
        },
        "run": ["$@evaluator.run()"],
    }))
}

/// The network's table, with MONAI's name as the target.
fn network(recipe: &Recipe) -> Outcome<Value> {
    let mut table = serde_json::to_value(&recipe.network)?;
    let name = table["name"].as_str().unwrap_or_default().to_owned();
    let Some(target) = NETWORKS.into_iter().find(|known| known.eq_ignore_ascii_case(&name)) else {
        let what = format!("MONAI has no network {name} of the same parameters; it has {}", NETWORKS.join(", "));
        return Err(RecipeError::new(what));
    };
    if let Some(fields) = table.as_object_mut() {
        fields.remove("name");
        // Absent is MONAI's default.
        fields.retain(|_, value| !value.is_null());
        fields.shift_insert(0, "_target_".to_owned(), json!(target));
    }
    Ok(table)
}

fn inferer(recipe: &Recipe) -> Outcome<Value> {
    let mut table = serde_json::to_value(&recipe.inferer)?;
    let name = table["name"].as_str().unwrap_or_default().to_owned();
    if !["SlidingWindowInferer", "SimpleInferer"].contains(&name.as_str()) {
        return Err(RecipeError::new(format!("the inferer {name} cannot be told to MONAI")));
    }
    if let Some(fields) = table.as_object_mut() {
        fields.remove("name");
        fields.retain(|_, value| !value.is_null());
        fields.shift_insert(0, "_target_".to_owned(), json!(name));
    }
    Ok(table)
}

/// `configs/metadata.json`, by MONAI's schema.
fn metadata(recipe: &Recipe) -> Outcome<Value> {
    let network = serde_json::to_value(&recipe.network)?;
    let inferer = serde_json::to_value(&recipe.inferer)?;
    let dims = network["spatial_dims"].as_u64().unwrap_or(3) as usize;
    let window = inferer["roi_size"].clone();
    let shape = if window.is_array() { window } else { json!(vec!["*"; dims]) };
    let channels: Map<String, Value> =
        recipe.labels.iter().enumerate().map(|(place, label)| (place.to_string(), json!(label))).collect();
    let inputs = network["in_channels"].as_u64().unwrap_or(1);
    let outputs = match recipe.output() {
        Output::Labels => 1,
        _ => recipe.labels.len(),
    };
    let names = (0..inputs).map(|place| {
        let name = recipe.data.images.get(place as usize).cloned().unwrap_or_else(|| "image".to_owned());
        (place.to_string(), json!(name))
    });
    let image_channels: Map<String, Value> = names.collect();
    let title = recipe.title();
    let modality = recipe.data.modalities.first().cloned().unwrap_or_else(|| "n/a".to_owned());
    Ok(json!({
        "schema": "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/meta_schema_20240725.json",
        "version": "0.1.0",
        "changelog": { "0.1.0": format!("exported by Hearth {}", env!("CARGO_PKG_VERSION")) },
        "monai_version": MONAI,
        "pytorch_version": "2.4.0",
        "numpy_version": "1.26.4",
        "required_packages_version": { "nibabel": "5.2.1", "pytorch-ignite": "0.4.11" },
        "name": title,
        "task": format!("segmentation: {}", recipe.labels.join(", ")),
        "description": format!("{title}, trained by a recipe of Hearth"),
        "authors": "",
        "copyright": "",
        "network_data_format": {
            "inputs": { "image": {
                "type": "image", "format": "magnitude", "modality": modality, "num_channels": inputs,
                "spatial_shape": shape, "dtype": "float32", "value_range": [], "is_patch_data": true,
                "channel_def": image_channels,
            } },
            "outputs": { "pred": {
                "type": "image", "format": "segmentation", "num_channels": outputs, "spatial_shape": shape,
                "dtype": "float32", "value_range": [], "is_patch_data": true, "channel_def": channels,
            } },
        },
    }))
}

fn readme(recipe: &Recipe, checkpoint: &str) -> String {
    let (title, labels) = (recipe.title(), recipe.labels.join(", "));
    format!(
        "# {title}\n\nA segmentation of {labels}, exported by Hearth from the checkpoint {checkpoint}.\n\n\
         ```sh\npython -m monai.bundle run --config_file configs/inference.json --bundle_root . \
         --dataset_dir IMAGES --output_dir OUT\n```\n\nsegments each `.nii.gz` of the folder `IMAGES`.\n"
    )
}

const LICENSE: &str = "This file takes the place of a licence. The export of a trained network grants no rights to it:\n\
                       those who trained it, and who own the images that it was trained on, decide about its use.\n";

const LOGGING: &str = "[loggers]\nkeys=root\n\n[handlers]\nkeys=consoleHandler\n\n[formatters]\nkeys=fullFormatter\n\n\
                       [logger_root]\nlevel=INFO\nhandlers=consoleHandler\n\n[handler_consoleHandler]\n\
                       class=StreamHandler\nlevel=INFO\nformatter=fullFormatter\nargs=(sys.stdout,)\n\n\
                       [formatter_fullFormatter]\nformat=%(asctime)s - %(name)s - %(levelname)s - %(message)s\n";
