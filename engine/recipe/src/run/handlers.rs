//! The handlers of a run: those that every run has, and those that its recipe lists.

use std::path::Path;

use hearth_engine::Handler;
use hearth_handlers::{HandlerSpec, LrSchedule, LrScheduleOptions, StopOnNonFinite, StopOnNonFiniteOptions};
use hearth_registry::{Node, Registry};

use super::Plan;
use crate::error::Outcome;

/// On a card a look at the loss waits for the card, so it is looked at less often.
const LOOK_EVERY: u64 = 16;

/// Called before the plugins: what may end the run, and what sets the learning rate.
pub fn before(plan: &Plan) -> Outcome<Vec<Box<dyn Handler>>> {
    let every = if plan.on_processor { 1 } else { LOOK_EVERY };
    let mut handlers: Vec<Box<dyn Handler>> = Vec::new();
    handlers.push(Box::new(StopOnNonFinite::new(StopOnNonFiniteOptions { every, ..Default::default() })?));
    let schedule = plan.recipe.schedule.clone();
    if schedule.name() != "Constant" {
        let handler = LrSchedule::new(LrScheduleOptions { schedule, ..Default::default() });
        handlers.push(Box::new(handler.map_err(|fault| plan.document.located("schedule", fault))?));
    }
    Ok(handlers)
}

/// Called after the plugins, which have validated by then: the recipe's own, and those that write the run's files.
pub fn after(plan: &Plan, run: &Path) -> Outcome<Vec<Box<dyn Handler>>> {
    let mut handlers = listed(plan, run)?;
    for name in ["MetricLog", "TensorBoardStats", "Progress"] {
        if !plan.recipe.handlers.iter().any(|entry| entry.text("name") == Some(name)) {
            handlers.push(Registry::<HandlerSpec>::new().build(&Node::named(name))?.make(run)?);
        }
    }
    Ok(handlers)
}

/// The handlers that the recipe lists, in its order.
pub fn listed(plan: &Plan, run: &Path) -> Outcome<Vec<Box<dyn Handler>>> {
    let registry = Registry::<HandlerSpec>::new();
    let build = |(index, entry): (usize, &Node)| {
        let place = format!("handlers.{index}");
        let built = registry.build(entry).and_then(|spec| spec.make(run));
        Ok(built.map_err(|fault| plan.document.located(&place, fault))?)
    };
    plan.recipe.handlers.iter().enumerate().map(build).collect()
}
