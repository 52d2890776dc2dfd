//! `configs/metadata.json` in MONAI's schema, and the texts of a bundle.

use serde_json::{Map, Value, json};

use super::inference::Makes;
use super::inferers::window;
use super::networks::dims;
use hearth_recipe::recipe::{Output, Recipe};

/// The version of MONAI whose names are used.
const MONAI: &str = "1.6.1";

/// The schema of MONAI's metadata.
const SCHEMA: &str =
    "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/meta_schema_20240725.json";

/// `configs/metadata.json`.
pub(super) fn metadata(recipe: &Recipe) -> Value {
    let title = recipe.title();
    let labels = recipe.labels.join(", ");
    let packages = match Makes::of(recipe) {
        Makes::SlideMaps => json!({ "pytorch-ignite": "0.4.11", "openslide-python": "1.3.1" }),
        _ => json!({ "nibabel": "5.2.1", "pytorch-ignite": "0.4.11" }),
    };
    json!({
        "schema": SCHEMA,
        "version": "0.1.0",
        "changelog": { "0.1.0": format!("exported by Hearth {}", env!("CARGO_PKG_VERSION")) },
        "monai_version": MONAI,
        "pytorch_version": "2.4.0",
        "numpy_version": "1.26.4",
        "required_packages_version": packages,
        "name": title,
        "task": if labels.is_empty() { kind(recipe).to_owned() } else { format!("{}: {labels}", kind(recipe)) },
        "description": format!("{title}, trained by a recipe of Hearth"),
        "authors": "",
        "copyright": "",
        "network_data_format": { "inputs": { "image": input(recipe) }, "outputs": { "pred": output(recipe) } },
    })
}

/// The task of the bundle, in one word.
fn kind(recipe: &Recipe) -> &'static str {
    match Makes::of(recipe) {
        Makes::Maps => "segmentation",
        Makes::Images => "reconstruction",
        Makes::Scores if recipe.learns().gives_probabilities() => "classification",
        Makes::Scores => "regression",
        Makes::SlideMaps => "detection",
        Makes::Generated => "generation",
    }
}

fn input(recipe: &Recipe) -> Value {
    let channels = recipe.network.in_channels();
    let names = (0..channels).map(|place| {
        let name = recipe.data.images.get(place).cloned().unwrap_or_else(|| "image".to_owned());
        (place.to_string(), json!(name))
    });
    let names: Map<String, Value> = names.collect();
    let modality = recipe.data.modalities.first().cloned().unwrap_or_else(|| "n/a".to_owned());
    let (shape, patches) = match recipe.learns().patches() {
        Some(how) => (json!([how.patch_size, how.patch_size]), true),
        None => (window(recipe, dims(recipe)), recipe.inferer.shared().window().is_some()),
    };
    json!({
        "type": "image", "format": if Makes::of(recipe) == Makes::SlideMaps { "RGB" } else { "magnitude" },
        "modality": modality, "num_channels": channels, "spatial_shape": shape, "dtype": "float32", "value_range": [],
        "is_patch_data": patches, "channel_def": names,
    })
}

fn output(recipe: &Recipe) -> Value {
    let channels = match recipe.output() {
        Output::Labels => 1,
        Output::Regions if recipe.learns().region_labels().is_some() => 1,
        _ => recipe.labels.len().max(1),
    };
    let (kind, format) = match Makes::of(recipe) {
        Makes::Maps => ("image", "segmentation"),
        Makes::Images | Makes::Generated => ("image", "magnitude"),
        Makes::Scores if recipe.learns().gives_probabilities() => ("probabilities", "classes"),
        Makes::Scores => ("tuples", "values"),
        Makes::SlideMaps => ("probabilities", "classes"),
    };
    let values: Map<String, Value> = match recipe.learns().region_labels() {
        Some(classes) => {
            let named = recipe.labels.iter().zip(classes);
            named
                .map(|(name, labels)| (labels.iter().map(i64::to_string).collect::<Vec<_>>().join("+"), json!(name)))
                .collect()
        }
        None => recipe.labels.iter().enumerate().map(|(place, label)| (place.to_string(), json!(label))).collect(),
    };
    json!({
        "type": kind, "format": format, "num_channels": channels, "spatial_shape": window(recipe, dims(recipe)),
        "dtype": "float32", "value_range": [], "is_patch_data": recipe.inferer.shared().window().is_some(),
        "channel_def": values,
    })
}

/// `docs/README.md`.
pub(super) fn readme(recipe: &Recipe, checkpoint: &str) -> String {
    let (title, labels) = (recipe.title(), recipe.labels.join(", "));
    let what = if labels.is_empty() { kind(recipe).to_owned() } else { format!("{} of {labels}", kind(recipe)) };
    let images = "--dataset_dir IMAGES --output_dir OUT";
    let (options, does) = match Makes::of(recipe) {
        Makes::Maps => (images, "writes `NAME_seg.nii.gz` for each image of the folder `IMAGES`".to_owned()),
        Makes::Images => (images, "writes `NAME_pred.nii.gz` for each image of the folder `IMAGES`".to_owned()),
        Makes::Scores => (
            images,
            format!("writes `scores.csv`: a row for each image of the folder `IMAGES`, its path and {}", columns(recipe)),
        ),
        Makes::SlideMaps => (
            images,
            "writes `NAME.npy`, a map of probabilities, for each slide (`.tif`) of the folder `IMAGES`. `mask_level` is \
             the level of a slide whose pixels are those of the map: the one that counts where each level has half the \
             width of the one before"
                .to_owned(),
        ),
        Makes::Generated => ("--num_samples 16 --output_dir OUT", "writes images, of random numbers".to_owned()),
    };
    let files = match Makes::of(recipe) {
        Makes::Generated => String::new(),
        _ => "\n`--image_pattern '*.nii.gz'` says which files of the folder are read.\n".to_owned(),
    };
    format!(
        "# {title}\n\nA network for the {what}, exported by Hearth from the checkpoint {checkpoint}.\n\n\
         ```sh\npython -m monai.bundle run --config_file configs/inference.json --bundle_root . {options}\n```\n\n{does}.\n\
         {files}"
    )
}

/// A description of the columns of a table of scores.
fn columns(recipe: &Recipe) -> String {
    let labels = recipe.labels.join(", ");
    match (recipe.learns().gives_probabilities(), recipe.learns().names_a_winner()) {
        (true, true) => format!("the probabilities of {labels}; the largest is the class"),
        (true, false) => format!("the probabilities of {labels}"),
        _ => format!("the values of {labels}"),
    }
}

/// The text that replaces a missing licence.
pub(super) const LICENSE: &str = "This file takes the place of a licence. The export of a trained network grants no rights to it:\n\
     those who trained it, and who own the images that it was trained on, decide about its use.\n";

/// `configs/logging.conf`.
pub(super) const LOGGING: &str = "[loggers]\nkeys=root\n\n[handlers]\nkeys=consoleHandler\n\n[formatters]\nkeys=fullFormatter\n\n\
                       [logger_root]\nlevel=INFO\nhandlers=consoleHandler\n\n[handler_consoleHandler]\n\
                       class=StreamHandler\nlevel=INFO\nformatter=fullFormatter\nargs=(sys.stdout,)\n\n\
                       [formatter_fullFormatter]\nformat=%(asctime)s - %(name)s - %(levelname)s - %(message)s\n";
