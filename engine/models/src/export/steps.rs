//! A recipe's transforms as entries of a MONAI configuration.

use hearth_registry::Node;
use serde_json::{Map, Value, json};

use crate::export::plain;
use hearth_recipe::recipe::Recipe;
use hearth_recipe::{Outcome, RecipeError};

/// Transforms of an image that have the same parameters and results here and in MONAI.
const KNOWN: [&str; 21] = [
    "LoadImage",
    "EnsureChannelFirst",
    "EnsureType",
    "Orientation",
    "Spacing",
    "ScaleIntensity",
    "ScaleIntensityRange",
    "ScaleIntensityRangePercentiles",
    "NormalizeIntensity",
    "ThresholdIntensity",
    "ShiftIntensity",
    "CropForeground",
    "SpatialPad",
    "BorderPad",
    "DivisiblePad",
    "CenterSpatialCrop",
    "Resize",
    "ResizeWithPadOrCrop",
    "GaussianSmooth",
    "SqueezeDim",
    "Flip",
];

/// Parameters that may be given for each key.
const BY_KEY: [&str; 4] = ["mode", "padding_mode", "align_corners", "dtype"];

/// Parameters of `LoadImage` that MONAI's does not have: faults and series of DICOM.
const OURS: [&str; 6] = ["accept", "series", "segments", "aliases", "segments_as_channels", "reference_key"];

/// The chain that a prediction needs: neither random transforms nor those of labels.
///
/// # Errors
/// A transform of the image that MONAI does not have.
pub(crate) fn preprocessing(recipe: &Recipe) -> Outcome<Vec<Value>> {
    let mut entries = Vec::new();
    for step in &recipe.transforms {
        let name = step.text("name").unwrap_or_default();
        let only = step.get("only").and_then(|only| only.as_str().map(str::to_owned));
        let keys = keys(step);
        let place = keys.iter().position(|key| key == "image");
        let Some(place) = place.filter(|_| !name.starts_with("Rand") && only.as_deref() != Some("train")) else {
            continue;
        };
        let what = plain(name);
        if !KNOWN.contains(&what) {
            let advice = "a bundle has what MONAI computes in the same way";
            return Err(RecipeError::new(format!(
                "the transform {name} of the image cannot be told to MONAI: {advice}"
            )));
        }
        let mut entry =
            Map::from_iter([("_target_".to_owned(), json!(format!("{what}d"))), ("keys".to_owned(), json!("image"))]);
        for field in step.fields() {
            let key = field.key.as_str();
            if ["name", "keys", "only", "batch", "allow_missing_keys"].contains(&key)
                || (what == "LoadImage" && OURS.contains(&key))
            {
                continue;
            }
            let mut value = serde_json::to_value(field.node.to_toml())?;
            if let (true, Value::Array(items)) = (BY_KEY.contains(&key), &value)
                && items.len() == keys.len()
            {
                value = items[place].clone();
            }
            entry.insert(key.to_owned(), value);
        }
        entries.push(Value::Object(entry));
    }
    Ok(entries)
}

fn keys(step: &Node) -> Vec<String> {
    match step.get("keys") {
        Some(node) if node.as_str().is_some() => node.as_str().map(str::to_owned).into_iter().collect(),
        Some(node) => node.items().iter().filter_map(|key| key.as_str().map(str::to_owned)).collect(),
        None => Vec::new(),
    }
}

/// What happens to a prediction on the image's own grid, after its activation: the argmax or the
/// threshold, and transforms of label maps.
///
/// # Errors
/// A step that MONAI does not have.
pub(crate) fn postprocessing(recipe: &Recipe, activations: &Value, discrete: Value) -> Outcome<Vec<Value>> {
    let mut before = vec![activations.clone()];
    let mut after = vec![discrete];
    for step in &recipe.post.prediction {
        let name = step.text("name").unwrap_or_default();
        let mut entry = Map::from_iter([
            ("_target_".to_owned(), json!(format!("{}d", plain(name)))),
            ("keys".to_owned(), json!("pred")),
        ]);
        for field in step.fields().iter().filter(|field| field.key != "name") {
            entry.insert(field.key.clone(), serde_json::to_value(field.node.to_toml())?);
        }
        match plain(name) {
            "Activations" => before = vec![Value::Object(entry)],
            // Classes are decided on the image's own grid, and a map of them is written.
            "AsDiscrete" => {}
            "KeepLargestConnectedComponent" | "FillHoles" | "RemoveSmallObjects" | "LabelFilter" => {
                after.push(Value::Object(entry));
            }
            other => return Err(RecipeError::new(format!("the step {other} of [post] cannot be told to MONAI"))),
        }
    }
    before.push(json!({
        "_target_": "Invertd", "keys": "pred", "transform": "@preprocessing", "orig_keys": "image",
        "nearest_interp": false, "to_tensor": true,
    }));
    before.append(&mut after);
    Ok(before)
}
