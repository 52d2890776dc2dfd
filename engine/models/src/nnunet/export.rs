//! Exports runs of a recipe of [`training_recipe`](hearth_recipe::nnunet::training_recipe) as a
//! model folder of nnU-Net.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hearth_data::Transform;
use hearth_nnunet::checkpoint::{self, Weight};
use hearth_registry::{Document, Node, build_by_reading};
use hearth_train::RunFolder;
use safetensors::SafeTensors;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use hearth_recipe::nnunet::{NnunetPreprocess, NnunetPreviousStage, Normalization, RandNnunetAugment, RandNnunetPatch};
use hearth_recipe::recipe::Recipe;
use hearth_recipe::{Context, Outcome, RecipeError};
use hearth_run::checkpoint_file;
use hearth_run::folders::{open_run, replace};

/// The options of an export.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// `best`, `latest` or the name of a checkpoint's folder.
    pub checkpoint: String,
    /// The extension of the image files for the model.
    pub file_ending: String,
    /// The names of the image channels; by default names with the same normalisation.
    pub channel_names: Vec<String>,
}

impl Default for ExportOptions {
    fn default() -> Self {
        ExportOptions { checkpoint: "best".to_owned(), file_ending: ".nii.gz".to_owned(), channel_names: Vec::new() }
    }
}

/// The configuration of the second stage of a cascade.
const CASCADE: &str = "3d_cascade_fullres";

/// Layers that nnU-Net's plans can express.
const LAYERS: [(&str, &str); 2] = [("norm", "instance"), ("act", "leakyrelu")];

/// Writes `plans.json`, `dataset.json` and a `fold_K/checkpoint_final.pth` for each run: the folder
/// of a run, or one with `fold0`, `fold1`, ... of a cross-validation. Returns the files.
///
/// # Errors
/// Runs of other recipes or of different plans, or files that cannot be read or written.
pub fn export(run: &Path, out: &Path, options: &ExportOptions) -> Outcome<Vec<PathBuf>> {
    let runs = runs_of(run)?;
    let mut first: Option<Described> = None;
    let mut written = Vec::new();
    for (fold, folder) in &runs {
        let doing = || format!("cannot export {}", folder.root().display());
        let described = Described::of(folder, options).while_doing(doing)?;
        let plans = described.plans.clone();
        match &first {
            None => {
                let make = |path: &Path| {
                    std::fs::create_dir_all(path).while_doing(|| format!("cannot make the folder {}", path.display()))
                };
                make(out)?;
                for (name, value) in [("plans.json", &described.plans), ("dataset.json", &described.dataset)] {
                    let path = out.join(name);
                    replace(&path, serde_json::to_string_pretty(value)? + "\n")?;
                    written.push(path);
                }
                first = Some(described);
            }
            Some(other) if other.plans != plans => {
                let what = "its recipe differs from that of the first fold, and one folder has one plan";
                return Err(RecipeError::new(what).context(doing()));
            }
            Some(_) => {}
        }
        let Some(described) = &first else { continue };
        let path = out.join(format!("fold_{fold}"));
        std::fs::create_dir_all(&path).while_doing(|| format!("cannot make the folder {}", path.display()))?;
        let path = path.join("checkpoint_final.pth");
        described.write(folder, *fold, &path, options).while_doing(doing)?;
        written.push(path);
    }
    Ok(written)
}

/// The run, as fold 0, or the folds of a cross-validation.
fn runs_of(run: &Path) -> Outcome<Vec<(usize, RunFolder)>> {
    if run.join("recipe.toml").is_file() {
        return Ok(vec![(0, open_run(run)?)]);
    }
    let folds = (0..).map(|fold| (fold, run.join(format!("fold{fold}")))).take(1000);
    let folds = folds.filter(|(_, path)| path.join("recipe.toml").is_file());
    let folds = folds.map(|(fold, path)| Ok((fold, open_run(&path)?))).collect::<Outcome<Vec<_>>>()?;
    if folds.is_empty() {
        // Returns the error that names what is missing.
        return Ok(vec![(0, open_run(run)?)]);
    }
    Ok(folds)
}

/// Plans and data set of a run.
struct Described {
    configuration: &'static str,
    plans: Value,
    dataset: Value,
    mirroring: Vec<usize>,
}

impl Described {
    fn of(folder: &RunFolder, options: &ExportOptions) -> Outcome<Self> {
        let recipe = Recipe::read(&Document::open(&folder.recipe())?)?;
        let prepared: NnunetPreprocess = step(&recipe)?;
        let patch: RandNnunetPatch = step(&recipe)?;
        let augment: RandNnunetAugment = step(&recipe)?;
        let stage = recipe.previous_stage().map(|_| step::<NnunetPreviousStage>(&recipe)).transpose()?;
        let configuration = if patch.patch_size.len() == 2 { "2d" } else { "3d_fullres" };
        let schemes: Vec<&str> = prepared.normalization.iter().map(|how| how.scheme.as_str()).collect();
        let mut back = [0; 3];
        prepared.transpose.iter().enumerate().for_each(|(to, from)| back[*from] = to);
        let batch_dice = serde_json::to_value(&recipe.loss)?["loss"]["batch"] == true;
        let regions = recipe.learns().region_labels();
        let mut keys = json!({
            "data_identifier": format!("nnUNetPlans_{configuration}"),
            "preprocessor_name": "DefaultPreprocessor",
            "batch_size": recipe.training.batch_size,
            "patch_size": patch.patch_size,
            "median_image_size_in_voxels": patch.patch_size,
            "spacing": prepared.spacing,
            "normalization_schemes": schemes,
            "use_mask_for_norm": prepared.normalization.iter().map(|how| how.use_mask).collect::<Vec<_>>(),
            "architecture": architecture(&serde_json::to_value(&recipe.network)?)?,
            "batch_dice": batch_dice,
        });
        for (name, order, is_seg) in [("data", 3, false), ("seg", 1, true), ("probabilities", 1, false)] {
            keys[format!("resampling_fn_{name}")] = json!("resample_data_or_seg_to_shape");
            keys[format!("resampling_fn_{name}_kwargs")] =
                json!({"is_seg": is_seg, "order": order, "order_z": 0, "force_separate_z": null});
        }
        let median_spacing: Vec<f64> = match prepared.spacing[..] {
            [y, x] => vec![y.max(x), y, x],
            _ => prepared.spacing.clone(),
        };
        let title = recipe.title();
        let mut configurations = Map::from_iter([(configuration.to_owned(), keys)]);
        let mut exported = configuration;
        if stage.is_some() {
            // As nnU-Net's planner writes it.
            exported = CASCADE;
            let second = json!({ "inherits_from": configuration, "previous_stage": "3d_lowres" });
            configurations.insert(CASCADE.to_owned(), second);
        }
        let plans = json!({
            "dataset_name": title,
            "plans_name": "nnUNetPlans",
            "original_median_spacing_after_transp": median_spacing,
            "original_median_shape_after_transp": match patch.patch_size[..] {
                [y, x] => vec![1, y, x],
                _ => patch.patch_size.clone(),
            },
            "image_reader_writer": reader(&options.file_ending),
            "transpose_forward": prepared.transpose,
            "transpose_backward": back,
            "configurations": configurations,
            "experiment_planner_used": "ExperimentPlanner",
            "label_manager": "LabelManager",
            "foreground_intensity_properties_per_channel": intensities(&prepared),
        });
        let (mut labels, next) = match &regions {
            Some(regions) => {
                let highest = regions.iter().flatten().max().copied().unwrap_or(0);
                (labels_of_regions(&recipe.labels, regions)?, highest + 1)
            }
            None => (plain_labels(&recipe.labels)?, recipe.labels.len() as i64),
        };
        // nnU-Net stores it as the label after the others; it does not affect predictions.
        let ignored = recipe.learns().ignore_label().map(i64::from).filter(|label| *label == next);
        labels.extend(ignored.map(|label| ("ignore".to_owned(), Value::from(label))));
        if let Some(stage) = stage {
            check_stage(&stage, &labels)?;
        }
        let names = channel_names(&schemes, &options.channel_names)?;
        let mut dataset = json!({
            "name": title,
            "channel_names": names,
            "labels": labels,
            "numTraining": 0,
            "file_ending": options.file_ending,
        });
        if let Some(regions) = &regions {
            dataset["regions_class_order"] = json!(class_order(regions)?);
        }
        Ok(Described { configuration: exported, plans, dataset, mirroring: augment.mirror_axes })
    }

    fn write(&self, folder: &RunFolder, fold: usize, path: &Path, options: &ExportOptions) -> Outcome {
        let (_, bytes) = checkpoint_file(folder, &options.checkpoint)?;
        let read = |error: safetensors::SafeTensorError| RecipeError::new(format!("the weights: {error}"));
        let file = SafeTensors::deserialize(&bytes).map_err(read)?;
        let tensors = file.tensors();
        let mut weights = Vec::with_capacity(tensors.len());
        for (name, view) in &tensors {
            if view.dtype() != safetensors::Dtype::F32 {
                return Err(RecipeError::new(format!("{name} is {:?}; expected F32", view.dtype())));
            }
            weights.push(Weight { name, shape: view.shape(), values: view.data(), integers: false });
        }
        let about = json!({
            "trainer_name": "nnUNetTrainer",
            "init_args": {
                "plans": self.plans,
                "configuration": self.configuration,
                "fold": fold,
                "dataset_json": self.dataset,
            },
            "inference_allowed_mirroring_axes": if self.mirroring.is_empty() { Value::Null } else { json!(self.mirroring) },
            "current_epoch": 0,
        });
        Ok(checkpoint::write(path, &weights, &about)?)
    }
}

/// nnU-Net's class that reads such files.
fn reader(ending: &str) -> &'static str {
    match ending.to_lowercase().as_str() {
        ".png" | ".bmp" => "NaturalImage2DIO",
        _ => "SimpleITKIO",
    }
}

/// Checks the labels of the stage: nnU-Net makes a channel of every foreground label, in ascending
/// order.
fn check_stage(stage: &NnunetPreviousStage, labels: &Map<String, Value>) -> Outcome {
    let of = |(name, value): (&String, &Value)| -> Vec<u64> {
        let all = value.as_array().map_or_else(|| vec![value.clone()], Clone::clone);
        all.iter().filter(|_| name != "ignore").filter_map(Value::as_u64).filter(|label| *label > 0).collect()
    };
    let known: BTreeSet<u64> = labels.iter().flat_map(of).collect();
    if stage.labels.iter().map(|label| u64::from(*label)).eq(known.iter().copied()) {
        return Ok(());
    }
    Err(RecipeError::new(format!(
        "the labels of the earlier stage are {:?}, and nnU-Net takes all of the foreground: {known:?}",
        stage.labels
    )))
}

/// The labels by name: the index of each name is its label, with the background first.
fn plain_labels(names: &[String]) -> Outcome<Map<String, Value>> {
    let labels: Map<String, Value> = (names.iter().enumerate())
        .map(|(label, name)| (if label == 0 { "background" } else { name.as_str() }.to_owned(), label.into()))
        .collect();
    if labels.len() != names.len() {
        return Err(RecipeError::new("two labels of the recipe have the same name, or one is called background"));
    }
    Ok(labels)
}

/// Background, and the labels of each region in the order of the outputs.
fn labels_of_regions(names: &[String], regions: &[Vec<i64>]) -> Outcome<Map<String, Value>> {
    let background = ("background".to_owned(), Value::from(0));
    let labels: Map<String, Value> =
        names.iter().zip(regions).map(|(name, labels)| (name.clone(), json!(labels))).chain([background]).collect();
    if labels.len() != names.len() + 1 {
        return Err(RecipeError::new("two regions of the recipe have the same name, or one is called background"));
    }
    Ok(labels)
}

/// The label that each output writes if later outputs overwrite: the one that no later output has.
fn class_order(regions: &[Vec<i64>]) -> Outcome<Vec<i64>> {
    let own = |(place, labels): (usize, &Vec<i64>)| {
        let later: Vec<i64> = regions[place + 1..].iter().flatten().copied().collect();
        match labels.iter().copied().filter(|label| !later.contains(label)).collect::<Vec<i64>>()[..] {
            [one] => Ok(one),
            _ => Err(RecipeError::new(format!(
                "nnU-Net cannot say which label region {labels:?} writes: it takes one that no later region has, and there is \
                 not exactly one; order regions from the largest to the smallest"
            ))),
        }
    };
    regions.iter().enumerate().map(own).collect()
}

/// The only step of this type.
fn step<T: Transform + DeserializeOwned>(recipe: &Recipe) -> Outcome<T> {
    let name = hearth_registry::type_name::<T>();
    let of_name = |node: &&Node| node.text("name") == Some(name);
    let Some(node) = recipe.transforms.iter().find(of_name) else {
        let what = "only runs of recipes that `hearth plan` wrote become models of nnU-Net";
        return Err(RecipeError::new(format!("the recipe has no {name}; {what}")));
    };
    let mut node = node.clone();
    ["name", "only", "batch"].into_iter().for_each(|key| {
        node.remove(key);
    });
    Ok(build_by_reading::<T>(&node)?)
}

fn architecture(network: &Value) -> Outcome<Value> {
    let name = network["name"].as_str().unwrap_or_default();
    let counted = match name {
        "PlainConvUNet" => "n_conv_per_stage",
        "ResidualEncoderUNet" => "n_blocks_per_stage",
        _ => return Err(RecipeError::new(format!("nnU-Net has no network {name}"))),
    };
    for (key, expected) in LAYERS {
        let layer = &network[key];
        let is_it =
            layer.as_str().or_else(|| layer[0].as_str()).is_some_and(|name| name.eq_ignore_ascii_case(expected));
        if !is_it {
            return Err(RecipeError::new(format!("network.{key} is {layer}; only {expected} can be exported")));
        }
    }
    if network["dropout"].as_f64().is_some_and(|dropout| dropout > 0.0) {
        return Err(RecipeError::new("network.dropout cannot be exported"));
    }
    let dims = network["spatial_dims"].as_u64().unwrap_or(3);
    let stages = network["features_per_stage"].as_array().map_or(0, Vec::len);
    let mut arguments = json!({
        "n_stages": stages,
        "features_per_stage": network["features_per_stage"],
        "conv_op": format!("torch.nn.modules.conv.Conv{dims}d"),
        "kernel_sizes": network["kernel_sizes"],
        "strides": network["strides"],
        "n_conv_per_stage_decoder": network["n_conv_per_stage_decoder"],
        "conv_bias": network["conv_bias"],
        "norm_op": format!("torch.nn.modules.instancenorm.InstanceNorm{dims}d"),
        "norm_op_kwargs": {"eps": 1e-5, "affine": true},
        "dropout_op": null,
        "dropout_op_kwargs": null,
        "nonlin": "torch.nn.LeakyReLU",
        "nonlin_kwargs": {"inplace": true},
    });
    arguments[counted] = network[counted].clone();
    Ok(json!({
        "network_class_name": format!("dynamic_network_architectures.architectures.unet.{name}"),
        "arch_kwargs": arguments,
        "_kw_requires_import": ["conv_op", "norm_op", "dropout_op", "nonlin"],
    }))
}

/// The intensities of each channel: nnU-Net looks them up for every normalisation, and uses them
/// for CT.
fn intensities(prepared: &NnunetPreprocess) -> Value {
    let of = |(channel, how): (usize, &Normalization)| {
        let (low, mean, high) = (how.percentile_00_5, how.mean.unwrap_or(0.0), how.percentile_99_5);
        let (low, high) = (low.unwrap_or(0.0), high.unwrap_or(0.0));
        let table = json!({"mean": mean, "median": mean, "std": how.std.unwrap_or(1.0), "min": low, "max": high,
            "percentile_00_5": low, "percentile_99_5": high});
        (channel.to_string(), table)
    };
    Value::Object(prepared.normalization.iter().enumerate().map(of).collect())
}

/// The given names, or names for which nnU-Net uses this normalisation.
fn channel_names(schemes: &[&str], given: &[String]) -> Outcome<Value> {
    if !given.is_empty() && given.len() != schemes.len() {
        let what = format!("{} names for {} channels", given.len(), schemes.len());
        return Err(RecipeError::new(what));
    }
    let of_scheme = |(channel, scheme): (usize, &&str)| match *scheme {
        "CTNormalization" => "CT".to_owned(),
        "NoNormalization" => "noNorm".to_owned(),
        "RescaleTo01Normalization" => "rescale_to_0_1".to_owned(),
        "RGBTo01Normalization" => "rgb_to_0_1".to_owned(),
        _ => format!("channel_{channel}"),
    };
    let names: Vec<String> = match given.is_empty() {
        true => schemes.iter().enumerate().map(of_scheme).collect(),
        false => given.to_vec(),
    };
    let names = names.into_iter().enumerate().map(|(channel, name)| (channel.to_string(), name.into()));
    Ok(Value::Object(names.collect()))
}
