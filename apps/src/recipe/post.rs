//! The steps of `[post]`: what is made of predictions and labels before the metric sees them.

use std::sync::Arc;

use hearth_data::{Pipeline, RecipeOptions, transform_names};
use hearth_nn::post::{Activations, AsDiscrete};
use hearth_train::Post;
use serde::Deserialize;
use toml::{Spanned, Table, Value};

use super::document::Document;
use super::suggest;
use crate::error::Outcome;
use crate::run::locate;

/// Steps that work on a whole batch.
#[derive(Deserialize)]
#[serde(tag = "name")]
enum BatchStep {
    Activations(Activations),
    AsDiscrete(AsDiscrete),
}

const BATCH_STEPS: [&str; 2] = ["Activations", "AsDiscrete"];

/// The steps of `post.prediction` or `post.label`, checked; errors point at the recipe.
pub fn steps(document: &Document, which: &str, tables: &[Table]) -> Outcome<Vec<Post>> {
    let path = |index: usize| format!("post.{which}.{index}");
    tables.iter().enumerate().map(|(index, table)| step(document, &path(index), table)).collect()
}

fn step(document: &Document, path: &str, table: &Table) -> Outcome<Post> {
    let Some(name) = table.get("name").and_then(Value::as_str) else {
        return Err(document.error_at(path, "a step needs a `name`"));
    };
    if BATCH_STEPS.contains(&name) {
        let step: BatchStep = match Value::Table(table.clone()).try_into() {
            Ok(step) => step,
            // Read again where it was written, for an error that says where.
            Err(error) => {
                document.read_at::<BatchStep>(path)?;
                return Err(document.error_at(path, error.message()));
            }
        };
        return Ok(match step {
            BatchStep::Activations(step) => {
                step.check().map_err(|error| document.error_at(path, error.to_string()))?;
                Post::Activations(step)
            }
            BatchStep::AsDiscrete(step) => Post::AsDiscrete(step),
        });
    }
    if table.contains_key("keys") {
        let message = "leave `keys` out: a step of [post] works on the prediction, or on the label";
        return Err(document.error_at(&format!("{path}.keys"), message));
    }
    let mut table = table.clone();
    table.insert("keys".into(), vec![Post::KEY].into());
    let pipeline = Pipeline::from_toml_with(&[Spanned::new(0..0, table)], &RecipeOptions::default());
    let pipeline = pipeline.map_err(|error| {
        if error.transform.is_none() && error.parameter.as_deref() == Some("name") {
            let known: Vec<&str> = BATCH_STEPS.into_iter().chain(transform_names()).collect();
            return document.error_at(&format!("{path}.name"), suggest::unknown("name", name, &known));
        }
        locate(document, &error, Some(path))
    })?;
    if pipeline.steps().iter().any(|step| step.is_random()) {
        return Err(document.error_at(&format!("{path}.name"), format!("{name} is random, post-processing is not")));
    }
    Ok(Post::Transforms(Arc::new(pipeline)))
}
