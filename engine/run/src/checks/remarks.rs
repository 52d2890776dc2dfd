//! Warnings of a recipe that trains or measures something else than it seems to: [`warn_of_recipe`].

use hearth_handlers::Schedule;
use hearth_registry::{Node, Value, counted};

use super::schedule::Course;
use crate::plan::Plan;
use hearth_recipe::recipe::{Output, Recipe};
use hearth_recipe::warning;

/// Names of the training loss, which handlers can watch.
const LOSSES: [&str; 3] = ["loss", "train_loss", "mean_loss"];

/// Warns of what does not stop a training: schedules that end early or rise throughout, validations that
/// never come, handlers that watch nothing, classes that are left out.
pub fn warn_of_recipe(plan: &Plan) {
    let recipe = &plan.recipe;
    warn_of_schedule(&*recipe.schedule, recipe);
    if recipe.learns().generates() {
        return;
    }
    let (epochs, interval) = (recipe.training.epochs, recipe.training.val_interval);
    let validates = recipe.plugins.iter().any(|plugin| plugin.name == "validation")
        || recipe.handlers.iter().any(|handler| handler.text("name") == Some("Validation"));
    if validates && epochs < interval {
        let epochs = counted(epochs as usize, "epoch");
        warning!("the run will never validate: it has {epochs} and val_interval = {interval}");
    }
    recipe.handlers.iter().for_each(|handler| warn_of_watcher(handler, recipe));
    if recipe.output() == Output::Regions
        && let Some(label) = recipe.labels.iter().find(|label| label.eq_ignore_ascii_case("background"))
    {
        warning!(
            "labels: {label:?} is measured as a region like the others, since [post] decides each channel by itself: \
             remove it, or use an AsDiscrete with argmax = true in post.prediction if classes exclude each other"
        );
    }
    warn_of_ignored(recipe);
}

fn warn_of_schedule(schedule: &dyn Schedule, recipe: &Recipe) {
    let (base, epochs) = (recipe.optimizer.lr(), recipe.training.epochs);
    let name = recipe.schedule.name();
    let longer = format!("lengthen it to {epochs} epochs in [schedule] (a resumed run takes --set schedule.KEY=VALUE)");
    match Course::of(schedule, base, epochs) {
        Some(Course::Zero) => {
            warning!(
                "the learning rate of the schedule {name} is 0 in every epoch of the run, so that nothing is learned"
            );
        }
        Some(Course::Ends { epoch, rate }) => {
            warning!(
                "the schedule {name} ends before the run: from epoch {epoch} of {epochs} on the learning rate is at most \
                 {rate}; {longer}"
            );
        }
        Some(Course::Rises { from, to }) => {
            warning!(
                "the run ends in the warm-up of the schedule {name}: the learning rate rises from {from} to {to} in its \
                 last epoch; shorten the warm-up in [schedule], or train for more epochs"
            );
        }
        // Cycles are meant where a schedule has their number.
        Some(Course::Returns { epoch }) if name == "CosineAnnealingLR" => {
            warning!(
                "the schedule {name} ends before the run: from epoch {epoch} of {epochs} on its rate rises again; {longer}"
            );
        }
        Some(Course::Returns { .. }) | None => {}
    }
}

/// A handler that watches a value that there is not, or that can never change the rate.
fn warn_of_watcher(handler: &Node, recipe: &Recipe) {
    let Some(name) = handler.text("name").filter(|name| ["EarlyStop", "ReduceLROnPlateau"].contains(name)) else {
        return;
    };
    let metrics: Vec<String> = recipe.metric.list().into_iter().map(|(name, _)| name).collect();
    if let Some(watched) = handler.text("metric")
        // A metric has values for its classes, too.
        && !metrics.iter().any(|metric| watched.starts_with(metric.as_str()))
        && !LOSSES.contains(&watched)
    {
        let known = metrics.join(", ");
        warning!("{name} watches {watched:?}, which no metric of the recipe is called: it can watch {known} and loss");
    }
    let base = recipe.optimizer.lr();
    if let Some(least) = number(handler, "min_lr").filter(|least| *least >= base) {
        warning!("{name}: min_lr = {least} is not below the learning rate {base}, so that it lowers nothing");
    }
}

/// Losses and metrics that leave out a class.
fn warn_of_ignored(recipe: &Recipe) {
    if recipe.output() != Output::Labels || recipe.ignore_index().is_some() {
        return;
    }
    let metrics = recipe.metric.list();
    let metrics = metrics.iter().map(|(name, config)| (format!("metric.{name}"), config.node()));
    let loss = recipe.loss.iter().map(|loss| ("loss".to_owned(), loss.node()));
    for (place, node) in loss.chain(metrics) {
        let index = number(node, "ignore_index").filter(|index| *index >= 0.0);
        if let Some(label) = index.and_then(|index| recipe.labels.get(index as usize)) {
            warning!("{place}: ignore_index leaves out every voxel of the class {label:?}, which `labels` names");
        }
    }
}

fn number(node: &Node, key: &str) -> Option<f64> {
    match &node.get(key)?.value {
        Value::Leaf(toml::Value::Float(number)) => Some(*number),
        Value::Leaf(toml::Value::Integer(number)) => Some(*number as f64),
        _ => None,
    }
}
