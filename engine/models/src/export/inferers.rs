//! Converts the inferer of a recipe to a MONAI component.

use hearth_registry::Fault;
use serde_json::{Map, Value, json};

use super::rule::component;
use hearth_recipe::recipe::Recipe;

/// The MONAI component of the inferer.
///
/// # Errors
/// An inferer that MONAI does not have, or test-time augmentation.
pub(super) fn inferer(recipe: &Recipe) -> Result<Value, Fault> {
    if !recipe.tta.flips.is_empty() || !recipe.tta.transforms.is_empty() {
        let what = "test-time augmentation cannot be exported: MONAI has none that a configuration names; remove [tta] \
                    from the run's recipe.toml (`hearth predict --tta none` predicts in the same way)";
        return Err(Fault::at("tta", what));
    }
    let table = serde_json::to_value(recipe.inferer.node());
    let table = table.map_err(|error| Fault::at("inferer", error.to_string()))?;
    let mut table: Map<String, Value> = table.as_object().cloned().unwrap_or_default();
    table.remove("name");
    let name = recipe.inferer.name();
    match name {
        "SlidingWindowInferer" | "SliceInferer" | "SimpleInferer" => {}
        "PatchInferer" => {
            let splitter = table.get("splitter").and_then(Value::as_object).cloned().unwrap_or_default();
            table.insert("splitter".to_owned(), component("SlidingWindowSplitter", &[], splitter));
        }
        other => {
            return Err(Fault::at("inferer.name", format!("the inferer {other} cannot be exported: MONAI has none")));
        }
    }
    Ok(component(name, &[], table))
}

/// The size of the network's window per axis, or `*` for the size of the image.
pub(super) fn window(recipe: &Recipe, dims: usize) -> Value {
    let size = recipe.inferer.shared().window().map(|(_, size)| size);
    match size {
        Some(size) if size.len() == 1 => json!(vec![size[0]; dims]),
        Some(size) => json!(size),
        None => json!(vec!["*"; dims]),
    }
}
