//! Exports a run as a bundle that MONAI can run.

use std::path::{Path, PathBuf};

use hearth_nnunet::checkpoint::{Weight, write_state_dict};
use hearth_registry::Document;
use hearth_train::RunFolder;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use super::inference::inference;
use super::metadata::{LICENSE, LOGGING, metadata, readme};
use crate::bundle::OF_RUN;
use hearth_recipe::recipe::Recipe;
use hearth_recipe::{Context, Outcome, RecipeError};
use hearth_run::Fingerprint;
use hearth_run::checkpoint_file;
use hearth_run::folders::replace;

/// The options of an export.
#[derive(Clone, Debug)]
pub struct BundleOptions {
    /// `best`, `latest` or the name of a checkpoint's folder.
    pub checkpoint: String,
    /// The text of the licence; the default grants no rights.
    pub license: Option<String>,
}

impl Default for BundleOptions {
    fn default() -> Self {
        BundleOptions { checkpoint: "best".to_owned(), license: None }
    }
}

/// The configurations of a bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct BundleConfigs {
    /// `configs/inference.json`.
    pub inference: Value,
    /// `configs/metadata.json`.
    pub metadata: Value,
}

impl BundleConfigs {
    /// The configurations for a recipe.
    ///
    /// # Errors
    /// A recipe that cannot be used, or a part that MONAI does not have, with its line.
    pub fn of(document: &Document) -> Outcome<Self> {
        let recipe = Recipe::read(document)?;
        let inference = inference(&recipe).map_err(|fault| document.located("", fault))?;
        Ok(BundleConfigs { inference, metadata: metadata(&recipe) })
    }
}

/// The weights of a recipe's network.
#[derive(Clone, Copy, Debug)]
pub struct BundleWeights<'a> {
    /// The name of the checkpoint, for the bundle's README.
    pub checkpoint: &'a str,
    /// A safetensors file with the names of the state dict.
    pub safetensors: &'a [u8],
    /// The properties of the training images, for comparison with the images that the bundle predicts.
    pub fingerprint: Option<&'a Fingerprint>,
}

/// Writes a run as a bundle and returns the files; see [`bundle_of`].
///
/// # Errors
/// A run that cannot be read, or an error of [`bundle_of`].
pub fn bundle(folder: &RunFolder, out: &Path, options: &BundleOptions) -> Outcome<Vec<PathBuf>> {
    let doing = || format!("cannot export {} as a bundle", folder.root().display());
    let document = Document::open(&folder.recipe())?;
    // Checked before anything that takes time.
    BundleConfigs::of(&document).while_doing(doing)?;
    let (checkpoint, bytes) = checkpoint_file(folder, &options.checkpoint)?;
    let fingerprint = Fingerprint::of_run(folder.root());
    let weights = BundleWeights { checkpoint: &checkpoint, safetensors: &bytes, fingerprint: fingerprint.as_ref() };
    bundle_of(&document, weights, out, options.license.as_deref()).while_doing(doing)
}

/// Writes `configs/metadata.json`, `configs/inference.json`, `configs/logging.conf`, `models/model.pt`,
/// `docs/README.md` and `LICENSE` to a folder, and returns the files. `python -m monai.bundle run
/// --config_file configs/inference.json --dataset_dir DIR` then predicts the images of a folder as
/// `hearth predict` does: label maps, images, a table of scores, or maps of slides.
///
/// # Errors
/// A network, transform, inferer or step of `[post]` that MONAI does not have, with its line in the
/// recipe; files that cannot be written.
pub fn bundle_of(
    document: &Document,
    weights: BundleWeights<'_>,
    out: &Path,
    license: Option<&str>,
) -> Outcome<Vec<PathBuf>> {
    let recipe = Recipe::read(document)?;
    let mut configs = BundleConfigs::of(document)?;
    if let Some(found) = weights.fingerprint {
        configs.metadata[OF_RUN] = serde_json::to_value(found)?;
    }
    for part in ["configs", "models", "docs"] {
        let path = out.join(part);
        std::fs::create_dir_all(&path).while_doing(|| format!("cannot make the folder {}", path.display()))?;
    }
    let model = out.join("models/model.pt");
    write_weights(&model, weights.safetensors)?;
    let mut files = vec![model];
    let mut write = |name: &str, text: String| -> Outcome {
        let path = out.join(name);
        replace(&path, text)?;
        files.push(path);
        Ok(())
    };
    write("configs/metadata.json", serde_json::to_string_pretty(&configs.metadata)? + "\n")?;
    write("configs/logging.conf", LOGGING.to_owned())?;
    write("docs/README.md", readme(&recipe, weights.checkpoint))?;
    write("LICENSE", license.unwrap_or(LICENSE).to_owned())?;
    // Written last, because nothing runs without it.
    write("configs/inference.json", serde_json::to_string_pretty(&configs.inference)? + "\n")?;
    files.reverse();
    Ok(files)
}

/// Writes the state dict with MONAI's names.
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
