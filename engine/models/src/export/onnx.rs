//! Exports the network of a model as an ONNX model.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use hearth_nn::layers::awaiting_weights;
use hearth_nn::networks::{AnyNetwork, Network};
use hearth_nn::trace::{Graph, TraceError, trace};
use hearth_nn::weights;
use hearth_onnx::{About, lower};
use hearth_package::{Package, WEIGHTS};
use hearth_registry::Document;
use serde_json::{Value, json};

use crate::bundle::BundleModel;
use crate::export::parameter;
use crate::open::{Family, OpenOptions, stored};
use crate::package::unpacked;
use crate::run::recipe_of;
use hearth_recipe::recipe::{Output, Recipe};
use hearth_recipe::{Context, Outcome, RecipeError};
use hearth_run::checkpoint_file;
use hearth_run::folders::{open_run, replace};

/// Sizes of an axis that are tried, smallest first: a network is traced at the first supported size
/// whose lowest level has more than one voxel.
const SIZES: [usize; 8] = [16, 32, 48, 64, 80, 96, 128, 192];

/// The written files of an export.
#[derive(Clone, Debug)]
pub struct OnnxExport {
    /// The model, and its weights if they are in a second file.
    pub files: Vec<PathBuf>,
    /// The number of operators.
    pub operators: usize,
    /// The shape of the traced input, `[batch, channel, x, y, z]`.
    pub traced: [usize; 5],
}

/// The choice of a model's network.
#[derive(Clone, Debug, Default)]
pub struct OnnxOptions {
    /// A run's checkpoint (`best` by default, `latest`, or a folder's name), or nnU-Net's (`final`
    /// by default, `best`, or a file's name).
    pub checkpoint: Option<String>,
    /// The fold of an nnU-Net model; by default its only one.
    pub fold: Option<String>,
}

/// A network in f32 on the CPU, and the metadata of its file.
pub(crate) struct Exported {
    pub network: AnyNetwork,
    pub about: About,
}

/// Writes the network of a model as an ONNX model, for any batch and all supported sizes. The model
/// is a run, an nnU-Net model, a MONAI bundle, a package of one of these, or the name of a stored
/// model. The metadata has the labels, the activation, and the preprocessing of the images: the
/// recipe of a run, the plans of nnU-Net, or the config of a bundle.
///
/// # Errors
/// A model that cannot be opened or has several networks, a network with a layer without an
/// operator, or a file that cannot be written.
pub fn onnx(model: &Path, options: &OnnxOptions, path: &Path) -> Outcome<OnnxExport> {
    let doing = || format!("cannot export {} as an ONNX model", model.display());
    let Exported { network, about } = exported(model, options).while_doing(doing)?;
    write(&network, &about, path).while_doing(doing)
}

/// The network of the model at a path.
fn exported(model: &Path, options: &OnnxOptions) -> Outcome<Exported> {
    if let Some(path) = stored(model) {
        return exported(&path, options);
    }
    if Package::is_one(model) {
        let package = Package::open(model)?;
        return match unpacked(&package)? {
            None => of_package(&package, options),
            Some(unpacked) => of_family(unpacked.path(), options),
        };
    }
    of_family(model, options)
}

fn of_family(path: &Path, options: &OnnxOptions) -> Outcome<Exported> {
    let family = Family::of(path, false);
    if let Some(fold) = options.fold.as_ref().filter(|_| family != Family::Nnunet) {
        let family = family.words();
        return Err(RecipeError::new(format!("--fold {fold} is for a model of nnU-Net; this is {family}: remove it")));
    }
    match family {
        Family::Run => {
            let folder = open_run(path)?;
            let (checkpoint, bytes) = checkpoint_file(&folder, options.checkpoint.as_deref().unwrap_or("best"))?;
            let path = folder.recipe();
            let text = hearth_files::read_to_string(&path).while_doing(|| format!("cannot read {}", path.display()))?;
            of_recipe(path.display().to_string(), text, &checkpoint, &bytes)
        }
        Family::Nnunet => {
            let model = crate::nnunet::lone_model(path).unwrap_or_else(|| path.to_owned());
            crate::nnunet::exported(&model, options)
        }
        Family::Bundle => {
            no_checkpoint(options)?;
            BundleModel::open(path, &OpenOptions::on("cpu"), None)?.exported()
        }
        Family::Recipe | Family::Total | Family::Ensemble => {
            let what = "and an ONNX model holds one network: give one of its models";
            Err(RecipeError::new(format!("this is {}, {what}", family.words())))
        }
    }
}

/// Rejects the name of a checkpoint for models without a choice of checkpoints.
fn no_checkpoint(options: &OnnxOptions) -> Outcome {
    match &options.checkpoint {
        None => Ok(()),
        Some(name) => {
            let what = "names one of a run or of a model of nnU-Net; this model has no others: remove it";
            Err(RecipeError::new(format!("--checkpoint {name} {what}")))
        }
    }
}

/// The network of a package of a run.
fn of_package(package: &Package, options: &OnnxOptions) -> Outcome<Exported> {
    no_checkpoint(options)?;
    if let Some(fold) = &options.fold {
        let what = "is for a model of nnU-Net; this is a package of a run: remove it";
        return Err(RecipeError::new(format!("--fold {fold} {what}")));
    }
    let (named, text) = recipe_of(package)?;
    let checkpoint = package.facts().checkpoint.clone().unwrap_or_else(|| WEIGHTS.to_owned());
    of_recipe(named, text, &checkpoint, &package.read(WEIGHTS)?)
}

/// The network of a recipe with these weights, in f32 on the CPU, whatever the run computed in.
fn of_recipe(name: String, text: String, checkpoint: &str, bytes: &[u8]) -> Outcome<Exported> {
    let recipe = Recipe::read(&Document::parse(name, text.as_str())?)?;
    let network = awaiting_weights(|| recipe.network.init(&Device::default(), 0)).map_err(RecipeError::from_error)?;
    let network = weights::from_bytes(network, bytes).map_err(RecipeError::from_error)?.0;
    let hash = blake3::hash(bytes).to_hex();
    let about = about(&recipe, text, checkpoint)?.with("weights_blake3", hash.as_str());
    Ok(Exported { network, about })
}

fn write(network: &AnyNetwork, about: &About, path: &Path) -> Outcome<OnnxExport> {
    let graph = traced(network)?;
    let model = lower(&graph, about).map_err(RecipeError::from_error)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let data_name = format!("{name}.data");
    let encoded = model.encode_as(&data_name, hearth_onnx::MOST_WITHIN);
    let mut files = Vec::new();
    // The model is written last: when it exists, all files are complete.
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

/// The graph at the first size that can be traced.
fn traced(net: &AnyNetwork) -> Outcome<Graph> {
    let (dims, [channels, _]) = (net.spatial_dims(), net.channels());
    let shape = |size: usize| [1, channels, size, size, if dims == 3 { size } else { 1 }];
    let fits: Vec<usize> = SIZES.into_iter().filter(|size| net.check_input(shape(*size)).is_ok()).collect();
    let mut refused = None;
    // At the smallest size the lowest level may have a single voxel, whose norm is 0.
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

fn about(recipe: &Recipe, text: String, checkpoint: &str) -> Outcome<About> {
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
