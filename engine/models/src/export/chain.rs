//! Converts the steps of a recipe to entries of a MONAI configuration.

use hearth_data::Transform;
use hearth_registry::component::is_of_a_plugin;
use hearth_registry::{Fault, Node, Registry};
use serde_json::{Map, Value, json};

use super::rule::{Scope, component, known_as, parameters};
use super::transforms::{COMMON, find, refusal};
use hearth_recipe::recipe::Recipe;

/// The key of the image.
const IMAGE: &str = "image";

/// Steps that split regions into patches: MONAI reads patches of whole slides itself.
const REGIONS: [&str; 4] = ["LoadRegion", "LoadImage", "EnsureChannelFirst", "GridSplit"];

/// The chain that a prediction needs, without random transforms and those of labels.
///
/// # Errors
/// A transform of the image, or a parameter, that MONAI does not have, with its key in the recipe.
pub(super) fn preprocessing(recipe: &Recipe, dims: usize) -> Result<Vec<Value>, Fault> {
    let mut entries = Vec::new();
    let slides = recipe.learns().patches().is_some();
    for (place, step) in recipe.transforms.iter().enumerate() {
        let entry = entry_of(step, dims, slides).map_err(|fault| fault.under(&format!("transforms.{place}")))?;
        entries.extend(entry);
    }
    // Here every image has a channel axis.
    let puts_first = entries.iter().any(|entry| entry["_target_"] == "EnsureChannelFirstd");
    for entry in entries.iter_mut().filter(|entry| !puts_first && entry["_target_"] == "LoadImaged") {
        entry["ensure_channel_first"] = json!(true);
    }
    Ok(entries)
}

/// The MONAI entry for a transform of a recipe; `None` if a prediction does not need it.
fn entry_of(step: &Node, dims: usize, slides: bool) -> Result<Option<Value>, Fault> {
    // A `Range` around a transform.
    if let Some(inner) = step.get("transform").filter(|inner| inner.is_table()) {
        return entry_of(inner, dims, slides).map_err(|fault| fault.under("transform"));
    }
    let keys = keys(step);
    let place = keys.iter().position(|key| key == IMAGE);
    let of_others = place.is_none() && step.get("keys").is_some();
    if of_others || step.text("only") == Some("train") || is_random(step)? {
        return Ok(None);
    }
    let name = known_as::<dyn Transform>(step.text("name").unwrap_or_default());
    if slides && name.is_some_and(|name| REGIONS.contains(&name)) {
        return Ok(None);
    }
    transform(step, Scope { place: place.unwrap_or(0), keys: keys.len().max(1), dims }, IMAGE)
}

/// The MONAI entry for a transform on one key.
///
/// # Errors
/// A transform or a parameter that MONAI does not have.
pub(super) fn transform(step: &Node, scope: Scope, key: &str) -> Result<Option<Value>, Fault> {
    let written = step.text("name").unwrap_or_default();
    let refused = |why: &str| Fault::at("name", format!("the transform {written} cannot be exported: {why}"));
    if is_of_a_plugin(written) {
        return Err(refused("it is a plugin's, which MONAI does not have"));
    }
    let name = known_as::<dyn Transform>(written).ok_or_else(|| refused("it is cuCIM's name; write MONAI's"))?;
    let (row, is_written) = find(name).ok_or_else(|| refused(refusal(name)))?;
    let mut table = completed(step)?;
    COMMON.iter().for_each(|common| drop(table.remove(*common)));
    let mut parameters = parameters(row, &table, scope)?;
    if name == "ScaleIntensity" && table.contains_key("factor") {
        // MONAI scales to 0..1 unless both ends are null.
        parameters.extend([("minv".to_owned(), Value::Null), ("maxv".to_owned(), Value::Null)]);
    }
    Ok(is_written.then(|| component(&format!("{name}d"), &[("keys", json!(key))], parameters)))
}

/// A transform's table with all defaults.
fn completed(step: &Node) -> Result<Map<String, Value>, Fault> {
    let whole = Registry::<dyn Transform>::new().complete(step)?;
    let table = serde_json::to_value(&whole).map_err(|error| Fault::new(error.to_string()))?;
    Ok(table.as_object().cloned().unwrap_or_default())
}

/// Whether a transform is random; random transforms are for training only.
fn is_random(step: &Node) -> Result<bool, Fault> {
    if step.text("name").is_some_and(is_of_a_plugin) {
        return Ok(false);
    }
    let mut table = step.clone();
    table.remove("only");
    table.remove("batch");
    Ok(hearth_data::build_transform(&table)?.is_random())
}

fn keys(step: &Node) -> Vec<String> {
    match step.get("keys") {
        Some(node) if node.as_str().is_some() => node.as_str().map(str::to_owned).into_iter().collect(),
        Some(node) => node.items().iter().filter_map(|key| key.as_str().map(str::to_owned)).collect(),
        None => Vec::new(),
    }
}
