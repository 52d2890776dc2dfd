//! Post-processing of a prediction: `[post] prediction` as entries of a MONAI configuration.

use hearth_data::Transform;
use hearth_data::transforms::ResolveRegions;
use hearth_registry::{Fault, Node, Registry};
use hearth_train::Post;
use serde_json::{Map, Value, json};

use super::chain::transform;
use super::rule::{Scope, component, known_as};
use hearth_recipe::recipe::{Output, Recipe};

/// The key of a prediction.
const PRED: &str = "pred";

/// The chain of a prediction, up to writing it.
///
/// A map or an image is resampled to the grid of its file after the activations. Classes are
/// decided on that grid: transforms then work on a label map or, from a step with `to_onehot` on,
/// on one channel for each class, as in `hearth predict`.
///
/// # Errors
/// A step or a parameter that MONAI does not have, with its key in the recipe.
pub(super) fn postprocessing(recipe: &Recipe, dims: usize) -> Result<Vec<Value>, Fault> {
    let steps = steps(recipe)?;
    let first = steps.iter().take_while(|step| matches!(step, Step::Activations(_))).count();
    let (activations, rest) = steps.split_at(first);
    let mut chain = Vec::new();
    for (place, step) in activations.iter().enumerate() {
        chain.extend(at(place, step.entry(dims))?);
    }
    if let Some(place) = rest.iter().position(|step| matches!(step, Step::Activations(_))) {
        let what = "an activation behind another step cannot be exported: put it first";
        return at(first + place, Err(Fault::at("name", what)));
    }
    match recipe.output() {
        Output::Labels => {
            if chain.is_empty() {
                chain.push(entry("Activationsd", json!({ "softmax": true })));
            }
            chain.push(inverted());
            chain.extend(labels(rest, first, dims)?);
        }
        output => {
            if output != Output::Scores && !recipe.learns().generates() {
                chain.push(inverted());
            }
            for (place, step) in rest.iter().enumerate() {
                if matches!(step, Step::Resolve(_)) && place + 1 < rest.len() {
                    let what = "ResolveRegions can only be exported as the last step";
                    return at(first + place, Err(Fault::at("name", what)));
                }
                chain.extend(at(first + place, step.entry(dims))?);
            }
        }
    }
    Ok(chain)
}

/// Adds the place of a step in the recipe to its fault.
fn at<T>(place: usize, made: Result<T, Fault>) -> Result<T, Fault> {
    made.map_err(|fault| fault.under(&format!("post.prediction.{place}")))
}

/// A step of `[post]`.
enum Step {
    Activations(Node),
    Discrete(Node),
    /// Converts regions to a label map: the channel of each region and the label that it writes
    /// over earlier ones.
    Resolve(Vec<(usize, i64)>),
    Transform(Node),
}

fn steps(recipe: &Recipe) -> Result<Vec<Step>, Fault> {
    let steps = recipe.post.prediction.iter().enumerate();
    steps.map(|(place, table)| at(place, one(recipe, table))).collect()
}

fn one(recipe: &Recipe, table: &Node) -> Result<Step, Fault> {
    let written = table.text("name").unwrap_or_default();
    match known_as::<Post>(written) {
        Some("Activations") => return Ok(Step::Activations(table.clone())),
        Some("AsDiscrete") => return Ok(Step::Discrete(table.clone())),
        _ => {}
    }
    if known_as::<dyn Transform>(written) != Some("ResolveRegions") {
        return Ok(Step::Transform(table.clone()));
    }
    let classes = table.get("classes").map(serde_json::to_value).transpose();
    let classes = classes.map_err(|error| Fault::at("classes", error.to_string()))?.unwrap_or_default();
    let classes: Vec<Vec<i64>> =
        serde_json::from_value(classes).map_err(|error| Fault::at("classes", error.to_string()))?;
    let as_labels = table.get("as_labels").is_some_and(|given| *given == Node::from(true));
    // Regions that are written as labels are resolved to labels at the end.
    if recipe.learns().region_labels().as_ref() != Some(&classes) && !as_labels {
        let what = "regions can only be exported as a label map: give task.classes, or as_labels = true";
        return Err(Fault::at("name", what));
    }
    Ok(Step::Resolve(ResolveRegions::new(Post::KEY, classes).order()?))
}

impl Step {
    fn entry(&self, dims: usize) -> Result<Vec<Value>, Fault> {
        Ok(match self {
            Step::Activations(table) => vec![entry("Activationsd", activation(table)?)],
            Step::Discrete(table) => vec![entry("AsDiscreted", Value::Object(given(table)?))],
            Step::Resolve(order) => vec![entry("Lambdad", json!({ "func": resolved(order) }))],
            Step::Transform(table) => transform(table, Scope::one(dims), PRED)?.into_iter().collect(),
        })
    }
}

/// The steps for a label map from probabilities on the image's own grid; `first` is the index of
/// the first step.
fn labels(steps: &[Step], first: usize, dims: usize) -> Result<Vec<Value>, Fault> {
    let (mut chain, mut classes, mut onehot) = (vec![entry("AsDiscreted", json!({ "argmax": true }))], None, false);
    for (place, step) in steps.iter().enumerate() {
        match step {
            Step::Discrete(table) => classes = classes.or_else(|| table.get("to_onehot")?.to_toml().as_integer()),
            Step::Transform(_) => {
                if let Some(classes) = classes.filter(|_| !onehot) {
                    chain.push(entry("AsDiscreted", json!({ "to_onehot": classes })));
                    onehot = true;
                }
                chain.extend(at(first + place, step.entry(dims))?);
            }
            Step::Resolve(_) => {
                let what = "ResolveRegions cannot be exported here: it works on regions, and classes are exclusive";
                return at(first + place, Err(Fault::at("name", what)));
            }
            // Handled before.
            Step::Activations(_) => {}
        }
    }
    if onehot {
        // A voxel that was removed from its class has only zeros, and becomes background.
        chain.push(entry("AsDiscreted", json!({ "argmax": true })));
    }
    Ok(chain)
}

/// Converts regions to a label map: each is written over those before it.
fn resolved(order: &[(usize, i64)]) -> String {
    let map = order.iter().fold("0.0".to_owned(), |map, (region, label)| {
        format!("torch.where(x[{region}:{}] > 0, {label}.0, {map})", region + 1)
    });
    format!("$lambda x: {map}")
}

fn activation(table: &Node) -> Result<Value, Fault> {
    let mut written = given(table)?;
    if let Some(other) = written.get("other").and_then(Value::as_str) {
        let function = match other {
            "tanh" => "torch.tanh(x)",
            "relu" => "torch.relu(x)",
            "exp" => "torch.exp(x)",
            "logsigmoid" => "torch.nn.functional.logsigmoid(x)",
            other => return Err(Fault::at("other", format!("the activation {other} cannot be exported"))),
        };
        written.insert("other".to_owned(), json!(format!("$lambda x: {function}")));
    }
    Ok(Value::Object(written))
}

/// The explicit parameters of a step of `[post]`. Omitted ones have MONAI's default, which is `None`.
fn given(table: &Node) -> Result<Map<String, Value>, Fault> {
    let whole = Registry::<Post>::new().complete(table)?;
    let value = serde_json::to_value(&whole).map_err(|error| Fault::new(error.to_string()))?;
    let mut given = value.as_object().cloned().unwrap_or_default();
    given.remove("name");
    given.retain(|key, value| !(value.is_null() || *value == json!(false) || (key == "dim" && *value == json!(0))));
    Ok(given)
}

fn entry(target: &str, parameters: Value) -> Value {
    component(target, &[("keys", json!(PRED))], parameters.as_object().cloned().unwrap_or_default())
}

/// Resamples to the grid of the image's file.
fn inverted() -> Value {
    entry(
        "Invertd",
        json!({ "transform": "@preprocessing", "orig_keys": "image", "nearest_interp": false, "to_tensor": true }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_regions_are_written_last() {
        // BraTS 2023: TC is 1 and 3, WT 1, 2 and 3, ET 3.
        let order = ResolveRegions::new("pred", vec![vec![1, 3], vec![1, 2, 3], vec![3]]).order().expect("an order");
        let expected = "$lambda x: torch.where(x[2:3] > 0, 3.0, torch.where(x[0:1] > 0, 1.0, \
                        torch.where(x[1:2] > 0, 2.0, 0.0)))";
        assert_eq!(resolved(&order), expected);
    }
}
