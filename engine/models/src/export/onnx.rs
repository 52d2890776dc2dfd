//! A run's network as an ONNX model.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use hearth_nn::layers::awaiting_weights;
use hearth_nn::networks::{AnyNetwork, Network};
use hearth_nn::trace::{Graph, TraceError, trace};
use hearth_nn::weights;
use hearth_onnx::{About, lower};
use hearth_registry::Document;
use hearth_train::RunFolder;
use serde_json::{Value, json};

use crate::export::parameter;
use hearth_recipe::recipe::{Output, Recipe};
use hearth_recipe::{Context, Outcome, RecipeError};
use hearth_run::checkpoint_file;
use hearth_run::folders::replace;

/// Sizes of an axis that are tried, smallest first: a network is traced at the first that it takes,
/// where its lowest level has more than one voxel.
const SIZES: [usize; 8] = [16, 32, 48, 64, 80, 96, 128, 192];

/// What was written.
#[derive(Clone, Debug)]
pub struct OnnxExport {
    /// The model, and its weights where they are in a second file.
    pub files: Vec<PathBuf>,
    /// How many operators it has.
    pub operators: usize,
    /// The input that was traced, `[batch, channel, x, y, z]`.
    pub traced: [usize; 5],
}

/// Writes the network of a run's checkpoint (`best`, `latest`, or a folder's name) as an ONNX model, for
/// any batch and any size that the network takes. The model's metadata has labels, spacing, window,
/// activation and the recipe.
///
/// # Errors
/// Where the run cannot be opened, its network has a layer without an operator, or a file cannot be
/// written.
pub fn onnx(folder: &RunFolder, checkpoint: &str, path: &Path) -> Outcome<OnnxExport> {
    let doing = || format!("cannot export {} as an ONNX model", folder.root().display());
    let recipe = Recipe::read(&Document::open(&folder.recipe())?)?;
    let (checkpoint, bytes) = checkpoint_file(folder, checkpoint)?;
    // In f32 on the CPU, whatever the run computed in.
    let net = awaiting_weights(|| recipe.network.init(&Device::default(), 0));
    let net = net.map_err(RecipeError::from_error).while_doing(doing)?;
    let net = weights::from_bytes(net, &bytes).while_doing(doing)?.0;
    let graph = traced(&net).while_doing(doing)?;
    let hash = blake3::hash(&bytes).to_hex();
    let about = about(folder, &recipe, &checkpoint)?.with("weights_blake3", hash.as_str());
    let model = lower(&graph, &about).map_err(RecipeError::from_error)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let data_name = format!("{name}.data");
    let encoded = model.encode_as(&data_name, hearth_onnx::MOST_WITHIN);
    let mut files = Vec::new();
    // The model last: with it all is there.
    if let Some(data) = &encoded.data {
        let path = path.with_file_name(&data_name);
        if path.symlink_metadata().is_ok() {
            let advice = "remove it, or give the model another name";
            return Err(RecipeError::new(format!("{} exists already; {advice}", path.display())));
        }
        replace(&path, data)?;
        files.push(path);
    }
    replace(path, &encoded.model)?;
    files.insert(0, path.to_owned());
    Ok(OnnxExport { files, operators: model.operators().values().sum(), traced: graph.input })
}

/// The graph at the first size that has one.
fn traced(net: &AnyNetwork) -> Outcome<Graph> {
    let (dims, [channels, _]) = (net.spatial_dims(), net.channels());
    let shape = |size: usize| [1, channels, size, size, if dims == 3 { size } else { 1 }];
    let fits: Vec<usize> = SIZES.into_iter().filter(|size| net.check_input(shape(*size)).is_ok()).collect();
    let mut refused = None;
    // At the smallest one the lowest level may have a single voxel, whose norm is 0.
    for size in fits.iter().copied().skip(1).take(3).chain(fits.first().copied()) {
        match trace(net, shape(size)) {
            Ok(graph) => return Ok(graph),
            Err(error @ (TraceError::Ambiguous { .. } | TraceError::Shape(_))) => refused = Some(error),
            Err(error) => return Err(RecipeError::from_error(error)),
        }
    }
    match refused {
        Some(error) => Err(RecipeError::from_error(error)),
        None => Err(RecipeError::new(format!("{} takes no input of {SIZES:?} voxels along each axis", net.name()))),
    }
}

fn about(folder: &RunFolder, recipe: &Recipe, checkpoint: &str) -> Outcome<About> {
    let path = folder.recipe();
    let text = std::fs::read_to_string(&path).while_doing(|| format!("cannot read {}", path.display()))?;
    let activation = match recipe.output() {
        Output::Labels => "softmax",
        Output::Regions => "sigmoid",
        Output::Scores if recipe.learns().gives_probabilities() => {
            if recipe.learns().names_a_winner() {
                "softmax"
            } else {
                "sigmoid"
            }
        }
        Output::Scores | Output::Image => "none",
    };
    let mut about = About::new(recipe.title())
        .with("labels", json!(recipe.labels).to_string())
        .with("activation", activation)
        .with("checkpoint", checkpoint)
        .with("recipe", text);
    let inferer = serde_json::to_value(&recipe.inferer)?;
    let spacing = parameter(recipe, "Spacing", "pixdim");
    let axcodes = parameter(recipe, "Orientation", "axcodes");
    let known = [("spacing", spacing), ("axcodes", axcodes), ("roi_size", inferer.get("roi_size").cloned())];
    for (key, value) in known {
        about = match value {
            Some(Value::String(text)) => about.with(key, text),
            Some(value) => about.with(key, value.to_string()),
            None => about,
        };
    }
    Ok(about)
}
