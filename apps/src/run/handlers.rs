//! The handlers of a run: those that every run has, and those that its recipe lists.

use std::path::Path;

use hearth_engine::Handler;
use hearth_handlers::{
    BuildError, LrSchedule, LrScheduleOptions, ScheduleConfig, StopOnNonFinite, StopOnNonFiniteOptions,
};
use toml::{Table, Value};

use super::Plan;
use crate::error::{Failure, Outcome};

/// On a card a look at the loss waits for the card, so it is looked at less often.
const LOOK_EVERY: u64 = 16;

/// Called before the plugins: what may end the run, and what sets the learning rate.
pub fn before(plan: &Plan) -> Outcome<Vec<Box<dyn Handler>>> {
    let every = if plan.on_processor { 1 } else { LOOK_EVERY };
    let mut handlers: Vec<Box<dyn Handler>> = Vec::new();
    handlers.push(Box::new(StopOnNonFinite::new(StopOnNonFiniteOptions { every, ..Default::default() })?));
    let schedule = plan.recipe.schedule.clone();
    if schedule != ScheduleConfig::Constant {
        let handler = LrSchedule::new(LrScheduleOptions { schedule, ..Default::default() });
        handlers.push(Box::new(handler.map_err(|error| plan.document.error_at("schedule", error.to_string()))?));
    }
    Ok(handlers)
}

/// Called after the plugins, which have validated by then: the recipe's own, and those that write the run's files.
pub fn after(plan: &Plan, run: &Path) -> Outcome<Vec<Box<dyn Handler>>> {
    let mut handlers = listed(plan, run)?;
    for name in ["MetricLog", "TensorBoardStats", "Progress"] {
        if !plan.recipe.handlers.iter().any(|entry| entry.get("name").and_then(Value::as_str) == Some(name)) {
            handlers.push(hearth_handlers::build(name, Value::Table(Table::new()), run)?);
        }
    }
    Ok(handlers)
}

/// The handlers that the recipe lists, in its order.
pub fn listed(plan: &Plan, run: &Path) -> Outcome<Vec<Box<dyn Handler>>> {
    let mut handlers = Vec::new();
    for (index, entry) in plan.recipe.handlers.iter().enumerate() {
        let mut options = entry.clone();
        let name = options.remove("name").and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
        let built = hearth_handlers::build(&name, Value::Table(options), run);
        handlers.push(built.map_err(|error| locate(plan, index, &error))?);
    }
    Ok(handlers)
}

fn locate(plan: &Plan, index: usize, error: &BuildError) -> Failure {
    match error {
        BuildError::Unknown { name, .. } => {
            let message = crate::recipe::suggest::unknown("handler", name, hearth_handlers::NAMES);
            plan.document.error_at(&format!("handlers.{index}.name"), message)
        }
        error => plan.document.error_at_quoted(&format!("handlers.{index}"), &error.to_string()),
    }
}
