//! Exports of trained networks for other programs: ONNX models and MONAI bundles.

mod bundle;
mod chain;
mod inference;
mod inferers;
mod metadata;
#[cfg(test)]
mod monai;
mod networks;
mod onnx;
mod post;
mod rule;
mod transforms;

pub use bundle::{BundleConfigs, BundleOptions, BundleWeights, bundle, bundle_of};
pub(crate) use onnx::Exported;
pub use onnx::{OnnxExport, OnnxOptions, onnx};

use hearth_data::Transform;
use hearth_registry::Node;
use serde_json::Value;

use hearth_recipe::recipe::Recipe;

/// The parameter of the recipe's transform with this name.
fn parameter(recipe: &Recipe, transform: &str, key: &str) -> Option<Value> {
    let named =
        |step: &&Node| step.text("name").is_some_and(|name| rule::known_as::<dyn Transform>(name) == Some(transform));
    let value = recipe.transforms.iter().find(named)?.get(key)?.to_toml();
    serde_json::to_value(value).ok()
}
