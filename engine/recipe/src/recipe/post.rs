//! The steps of `[post]`: post-processing of predictions and labels before the metric sees them.

use std::sync::Arc;

use hearth_data::{Pipeline, Transform};
use hearth_registry::component::is_of_a_plugin;
use hearth_registry::{Fault, Kind, Node, Registry, explained, unknown};
use hearth_train::Post;

/// The steps of `post.prediction` or `post.label`, checked.
///
/// # Errors
/// The first step that cannot be used, with its position in the recipe.
pub fn steps(which: &str, tables: &[Node]) -> Result<Vec<Post>, Fault> {
    let place = |index: usize| format!("post.{which}.{index}");
    tables.iter().enumerate().map(|(index, table)| step(table).map_err(|fault| fault.under(&place(index)))).collect()
}

fn step(table: &Node) -> Result<Post, Fault> {
    let batch = Registry::<Post>::new();
    let Some(name) = table.text("name") else { return batch.build(table).map(|post| *post) };
    if batch.find(name).is_some() {
        return batch.build(table).map(|post| *post);
    }
    let transforms = Registry::<dyn Transform>::new();
    if !is_of_a_plugin(name) && transforms.find(name).is_none() {
        let known: Vec<&str> = batch.names().into_iter().chain(transforms.names()).collect();
        let meaning = explained(Post::WORD, name).map(|meaning| format!("unknown step {name:?}: {meaning}"));
        return Err(Fault::at("name", meaning.unwrap_or_else(|| unknown("step", name, &known))).within(table));
    }
    if table.get("keys").is_some() {
        let message = "remove `keys`: a step of [post] works on the prediction, or on the label";
        return Err(Fault::at("keys", message).within(table));
    }
    let keyed = table.clone().with("keys", vec![Post::KEY]);
    let pipeline = Pipeline::from_nodes(std::slice::from_ref(&keyed)).map_err(|mut fault| {
        // There is only one step.
        fault.path = fault.path.strip_prefix('0').unwrap_or(&fault.path).trim_start_matches('.').to_owned();
        fault.within(table)
    })?;
    if pipeline.steps().iter().any(|step| step.is_random()) {
        return Err(Fault::at("name", format!("{name} is random, which post-processing cannot be")).within(table));
    }
    Ok(Post::Transforms(Arc::new(pipeline)))
}
