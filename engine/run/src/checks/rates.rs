//! Learning rates with which no weight ever changes: [`check_rates`], [`check_schedules`].

use hearth_handlers::{LrScheduleOptions, StepBy};
use hearth_nn::networks::AnyNetwork;
use hearth_nn::optim::{OptimError, OptimizerConfig, ParameterGroup};
use hearth_registry::read;

use super::schedule;
use crate::plan::Plan;
use hearth_recipe::recipe::Listens;
use hearth_recipe::{At, Outcome};

/// Checks that a parameter of the network has a learning rate above 0. Groups with a rate of 0 next to others
/// are meant.
///
/// # Errors
/// A group that matches no parameter, and rates of 0 for everything that trains, at the key of a group's
/// rate. `table` has the optimizer.
pub(crate) fn check_rates(plan: &Plan, network: &AnyNetwork, config: &OptimizerConfig, table: &str) -> Outcome {
    let key = |key: &str| format!("{table}.{key}");
    let mut optimizer = config.build().map_err(|error| plan.document.error_at(table, error.to_string()))?;
    optimizer.bind(network).map_err(|error| {
        let of = |params: &str| config.groups().iter().position(|group| group.params == params);
        let place = match &error {
            OptimError::Group { params, .. } => of(params).map(|index| key(&format!("groups.{index}.params"))),
            _ => None,
        };
        plan.document.error_at(&place.unwrap_or_else(|| table.to_owned()), error.to_string())
    })?;
    if optimizer.moves(network, config.lr()) {
        return Ok(());
    }
    let rate = |group: &ParameterGroup| match (group.lr, group.lr_scale) {
        (Some(0.0), _) => Some("lr"),
        (_, Some(0.0)) => Some("lr_scale"),
        _ => None,
    };
    let still = config.groups().iter().enumerate().find_map(|(index, group)| Some((index, rate(group)?)));
    let (place, what) = match still {
        Some((index, rate)) => (
            format!("groups.{index}.{rate}"),
            "the learning rate of every parameter that trains is 0, so that nothing is learned: give one of the groups a \
             rate above 0, or none to some parameters",
        ),
        None => ("lr".to_owned(), "the learning rate is 0 as a 32-bit number, so that nothing is learned: give more"),
    };
    Err(plan.document.error_at(&key(&place), what))
}

/// Checks that the schedules have a rate above 0 in some step of the run.
///
/// # Errors
/// `[schedule]`, or the schedule of an `LrSchedule` in `[[handlers]]`, which replaces it.
pub(super) fn check_schedules(plan: &Plan) -> Outcome {
    let recipe = &plan.recipe;
    let (base, epochs) = (recipe.optimizer.lr(), recipe.training.epochs);
    let what = |name: &str, steps: &str| {
        format!(
            "the learning rate of the schedule {name} is 0 in every {steps} of the run, so that nothing is learned: change its \
             rates, or train for more epochs"
        )
    };
    let mut replaced = false;
    for (index, entry) in recipe.handlers.iter().enumerate() {
        let is_trainers = matches!(Listens::of(entry), Ok(Listens::Train));
        if entry.text("name") != Some("LrSchedule") || !is_trainers {
            continue;
        }
        replaced = true;
        let mut own = Listens::taken_from(entry);
        own.remove("name");
        // Other mistakes of handlers are reported when they are made.
        let Ok(LrScheduleOptions { schedule: own, step_by, base_lr }) = read(&own) else { continue };
        let (steps, word) = match step_by {
            StepBy::Epoch => (Some(epochs), "epoch"),
            // The number of iterations of an epoch depends on the cases.
            StepBy::Iteration => (None, "iteration"),
        };
        if schedule::is_zero(&*own, base_lr.unwrap_or(base), steps) {
            let key = format!("handlers.{index}.schedule");
            return Err(plan.document.error_at(&key, what(own.name(), word)));
        }
    }
    if !replaced && schedule::is_zero(&*recipe.schedule, base, Some(epochs)) {
        return Err(plan.document.error_at("schedule", what(recipe.schedule.name(), "epoch")));
    }
    Ok(())
}
