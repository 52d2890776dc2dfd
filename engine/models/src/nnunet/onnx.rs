//! The network of a fold, for an export.

use std::path::Path;

use burn::tensor::Device;
use hearth_nnunet::{Folds, ModelFolder};
use hearth_onnx::About;
use hearth_registry::counted;
use serde_json::json;

use super::checkpoint::Checkpoint;
use super::predict::load;
use crate::export::{Exported, OnnxOptions};
use crate::open::checkpoint_name;
use hearth_recipe::{Outcome, RecipeError};
use hearth_run::outputs::sum;

/// The network of one fold of a model folder. Its axes are those of the plans: `[z, y, x]` of the
/// image, in the order of `transpose_forward`.
pub(crate) fn exported(path: &Path, options: &OnnxOptions) -> Outcome<Exported> {
    let folder = ModelFolder::open(path)?;
    let wanted = options.fold.clone().map_or(Folds::Found, |fold| Folds::These(vec![fold]));
    let found = folder.checkpoints(&wanted, &checkpoint_name(options.checkpoint.as_deref()))?;
    let [(fold, file)] = &found[..] else {
        let folds: Vec<&str> = found.iter().map(|(fold, _)| fold.as_str()).collect();
        let (count, folds) = (counted(folds.len(), "fold"), folds.join(", "));
        let what = format!("the model has {count}, and an ONNX model holds one network: choose by --fold ({folds})");
        return Err(RecipeError::new(what));
    };
    let checkpoint = Checkpoint::open(file)?;
    let configuration = checkpoint.configuration(&folder, file)?;
    let network = load(&checkpoint, &configuration, &folder.dataset, file, &Device::default())?;
    let regions = folder.dataset.labels.has_regions();
    let about = About::new(format!("{} {}", folder.plans.dataset_name, configuration.name))
        .with("labels", folder.dataset.raw["labels"].to_string())
        .with("activation", if regions { "sigmoid" } else { "softmax" })
        .with("checkpoint", format!("fold_{fold}/{}", file.file_name().unwrap_or_default().to_string_lossy()))
        .with("spacing", json!(configuration.spacing).to_string())
        .with("roi_size", json!(configuration.patch_size).to_string())
        .with("weights_blake3", sum(file)?)
        .with("plans", folder.plans.raw.to_string())
        .with("dataset", folder.dataset.raw.to_string());
    Ok(Exported { network, about })
}
