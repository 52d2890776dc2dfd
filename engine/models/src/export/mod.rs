//! Trained networks for other programs: ONNX models and bundles of MONAI.

mod bundle;
mod onnx;
mod steps;

pub use bundle::{BundleOptions, bundle};
pub use onnx::{OnnxExport, onnx};

use hearth_registry::Node;
use serde_json::Value;

use hearth_recipe::recipe::Recipe;

/// The name of a transform without the `d` of dictionaries.
fn plain(name: &str) -> &str {
    name.strip_suffix('d').unwrap_or(name)
}

/// The parameter of the recipe's transform of this name.
fn parameter(recipe: &Recipe, transform: &str, key: &str) -> Option<Value> {
    let named = |step: &&Node| step.text("name").is_some_and(|name| plain(name) == transform);
    let value = recipe.transforms.iter().find(named)?.get(key)?.to_toml();
    serde_json::to_value(value).ok()
}
