//! Checks that runs fit into an ensemble: they must take the same image and predict the same classes.

use hearth_nn::networks::Network;

use crate::run::trained::Trained;
use hearth_recipe::task::Patches;
use hearth_recipe::{Outcome, RecipeError};
use hearth_run::Plan;

/// Fails unless two runs fit into one ensemble: the same image as input, and the same classes as
/// output.
pub fn check_alike((name, first): (&str, &Trained), (other_name, other): (&str, &Trained)) -> Outcome {
    let differ = |what: &str, one: String, two: String| {
        let advice = "an ensemble takes runs that see the same image and predict the same";
        Err(RecipeError::new(format!("{name} and {other_name} differ in {what}: {one} and {two}; {advice}")))
    };
    let (a, b) = (&first.plan, &other.plan);
    if a.recipe.labels != b.recipe.labels {
        return differ("their labels", a.recipe.labels.join(", "), b.recipe.labels.join(", "));
    }
    if a.recipe.output() != b.recipe.output() {
        let word = |plan: &Plan| format!("{:?}", plan.recipe.output()).to_lowercase();
        return differ("what they predict", word(a), word(b));
    }
    let (one, two) = (first.network.channels(), other.network.channels());
    if one != two {
        let words = |[taken, made]: [usize; 2]| format!("{taken} in, {made} out");
        return differ("the network's channels", words(one), words(two));
    }
    let (one, two) = (patches(a), patches(b));
    if one != two {
        let text = |patches| toml::to_string(&patches).unwrap_or_default().trim().replace('\n', ", ");
        return differ("their patches", text(one), text(two));
    }
    if a.recipe.data.images != b.recipe.data.images {
        return differ("data.images", a.recipe.data.images.join(", "), b.recipe.data.images.join(", "));
    }
    let (one, two) = (a.prediction.describe(), b.prediction.describe());
    if let Some((what, one, two)) = first_difference(&one, &two) {
        return differ(&what, one, two);
    }
    let (one, two) = (&a.recipe.inferer, &b.recipe.inferer);
    if one != two {
        let text = |inferer| toml::to_string(inferer).unwrap_or_default().trim().replace('\n', ", ");
        return differ("the inferer", text(one), text(two));
    }
    if a.recipe.post.prediction != b.recipe.post.prediction {
        let text = |plan: &Plan| {
            plan.recipe.post.prediction.iter().map(|step| step.to_toml().to_string()).collect::<Vec<_>>().join(", ")
        };
        return differ("post.prediction", text(a), text(b));
    }
    Ok(())
}

/// The options of a slide's map; the number of patches per network call does not matter.
fn patches(plan: &Plan) -> Option<Patches> {
    let learns = plan.recipe.learns();
    learns.patches().map(|patches| Patches { batch: Patches::default().batch, ..patches.clone() })
}

/// The first step and parameter in which two pipelines differ, with both values.
fn first_difference(one: &serde_json::Value, two: &serde_json::Value) -> Option<(String, String, String)> {
    let steps = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let (one, two) = (steps(one), steps(two));
    let name = |step: Option<&serde_json::Value>| {
        step.map_or("nothing".to_owned(), |step| step["name"].as_str().map_or_else(|| step.to_string(), str::to_owned))
    };
    let place = (0..one.len().max(two.len())).find(|place| one.get(*place) != two.get(*place))?;
    let (a, b) = (one.get(place), two.get(place));
    if let (Some(serde_json::Value::Object(a)), Some(serde_json::Value::Object(b))) = (a, b)
        && a.get("name") == b.get("name")
        && let Some(key) = a.keys().chain(b.keys()).find(|key| a.get(*key) != b.get(*key))
    {
        let text = |step: &serde_json::Map<String, serde_json::Value>| {
            step.get(key).map_or_else(|| "nothing".to_owned(), ToString::to_string)
        };
        return Some((format!("`{key}` of {}", name(one.get(place))), text(a), text(b)));
    }
    Some((format!("transform {}", place + 1), name(a), name(b)))
}
