//! Warnings of a recipe that trains or measures something else than it seems to: [`warn_of_recipe`].

use hearth_data::{Effect, Transform, all_steps};
use hearth_engine::Better;
use hearth_handlers::Schedule;
use hearth_registry::component::is_of_a_plugin;
use hearth_registry::{Node, Registry, Value, counted};

use super::schedule::Course;
use crate::plan::{Plan, named, works_on};
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
    warn_of_unmixed(recipe);
    if recipe.output().is_map() {
        warn_of_apart(recipe);
    }
}

/// Random steps that move the voxels of the image away from those of the label.
fn warn_of_apart(recipe: &Recipe) {
    for (path, step) in all_steps(&recipe.transforms) {
        if works_on(step, "image") && !works_on(step, "label") && moves_at_random(step) {
            warning!("transforms.{path} moves the image at random, and not its label: add \"label\" to `keys`");
        }
    }
}

/// Whether a step draws where the voxels go; what a plugin's step does to them is not known.
fn moves_at_random(step: &Node) -> bool {
    if step.text("name").is_some_and(is_of_a_plugin) {
        return false;
    }
    let mut table = step.clone();
    table.remove("only");
    table.remove("batch");
    let built = Registry::<dyn Transform>::new().build(&table);
    built.is_ok_and(|step| step.is_random() && !matches!(step.effect(), Effect::Nothing | Effect::Values))
}

/// Images of two cases with the label of one.
fn warn_of_unmixed(recipe: &Recipe) {
    let mixes = |step: &Node| step.text("name").is_some_and(|name| named(&["MixUp", "CutMix"], name));
    for (path, step) in all_steps(&recipe.transforms).into_iter().filter(|(_, step)| mixes(step)) {
        if works_on(step, "image") && !works_on(step, "label") {
            warning!(
                "transforms.{path} combines the images of two cases, and each keeps its own label: add \"label\" to `keys`"
            );
        }
    }
}

fn warn_of_schedule(schedule: &dyn Schedule, recipe: &Recipe) {
    let (base, epochs) = (recipe.optimizer.lr(), recipe.training.epochs);
    let name = recipe.schedule.name();
    let longer = format!("lengthen it to {epochs} epochs in [schedule] (a resumed run takes --set schedule.KEY=VALUE)");
    match Course::of(schedule, base, epochs) {
        Some(Course::Ends { epoch, rate }) => {
            warning!(
                "the schedule {name} ends before the run: from epoch {epoch} of {epochs} on the learning rate is at most \
                 {rate}; {longer}"
            );
        }
        // A warm-up begins below the optimizer's rate.
        Some(Course::Rises { from, to }) if from >= base => {
            warning!(
                "the schedule {name} raises the learning rate of the optimizer in all epochs, from {from} to {to}: is a \
                 rate in [schedule] (eta_min) above [optimizer] lr?"
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
    let of_training = recipe.training.metrics.list(&recipe.metric);
    let metrics: Vec<String> = recipe.metric.list().into_iter().chain(of_training).map(|(name, _)| name).collect();
    if let Some(watched) = handler.text("metric")
        // A metric has values for its classes, too.
        && !metrics.iter().any(|metric| watched.starts_with(metric.as_str()))
        && !LOSSES.contains(&watched)
    {
        let known = metrics.join(", ");
        warning!("{name} watches {watched:?}, which no metric of the recipe is called: it can watch {known} and loss");
    }
    warn_of_direction(name, handler, recipe);
    let base = recipe.optimizer.lr();
    if let Some(least) = number(handler, "min_lr").filter(|least| *least >= base) {
        warning!("{name}: min_lr = {least} is not below the learning rate {base}, so that it lowers nothing");
    }
}

/// A handler that takes the better values of its metric for the worse ones, since those of the key metric
/// decide.
fn warn_of_direction(name: &str, handler: &Node, recipe: &Recipe) {
    let Some(watched) = handler.text("metric").filter(|_| handler.get("better").is_none()) else { return };
    let training = &recipe.training.metrics;
    let of_key = training.key(&recipe.metric).map_or_else(|| recipe.metric.better(), |(_, better)| better);
    let all = recipe.metric.list().into_iter().chain(training.list(&recipe.metric));
    // `train_hd_label_1` is of `train_hd`, not of `train`.
    let metric = all.filter(|(metric, _)| watched.starts_with(metric.as_str())).max_by_key(|(metric, _)| metric.len());
    let higher = metric.filter(|(metric, _)| !LOSSES.contains(&watched) || metric == watched);
    let Some(higher) = higher.and_then(|(_, config)| config.higher_is_better()) else { return };
    if of_key.is_some_and(|of_key| (of_key == Better::Higher) != higher) {
        let (own, taken) = if higher { ("higher", "lower") } else { ("lower", "higher") };
        warning!(
            "{name} takes {taken} values of {watched:?} for better ones, as of the key metric, but {own} ones are: \
             give it better = {own:?}"
        );
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
