//! `summary.json`: what came out, and where the time went.

use hearth_engine::{Engine, RunEnd, RunError};
use hearth_kernels::Tuning;
use hearth_train::{RunFolder, device};
use serde_json::{Map, Value, json};

use super::Plan;
use super::folders;
use crate::error::Outcome;

/// Writes the summary of a run that has ended in whatever way.
pub fn write(
    folder: &RunFolder,
    plan: &Plan,
    engine: &Engine,
    end: Result<&RunEnd, &RunError>,
    seconds: f64,
    tuning: Tuning,
) -> Outcome {
    let state = engine.state();
    let (outcome, why) = match end {
        Ok(RunEnd::Completed) => ("completed", None),
        Ok(RunEnd::Terminated(why)) => ("terminated", Some(why.clone())),
        Ok(RunEnd::Interrupted(why)) => ("interrupted", Some(why.clone())),
        Ok(_) => ("ended", None),
        Err(error) => ("failed", Some(error.to_string())),
    };
    let handlers: Vec<Value> = engine
        .handler_times()
        .iter()
        .map(|times| {
            let mut one = json!({ "name": times.name, "calls": times.calls, "seconds": times.seconds });
            if times.errors > 0 {
                one["errors"] = json!(times.errors);
                one["first_error"] = json!(times.first_error);
                one["disabled"] = json!(times.disabled);
            }
            one
        })
        .collect();
    let metrics: Map<String, Value> =
        state.metrics.iter().map(|(name, value)| (name.clone(), number(*value))).collect();
    let summary = json!({
        "hearth": env!("CARGO_PKG_VERSION"),
        "task": plan.recipe.title(),
        "outcome": outcome,
        "why": why,
        "device": device::name(&plan.device),
        "precision": plan.precision,
        "seed": state.seed,
        "epochs": state.epoch,
        "iterations": state.iteration,
        "metrics": metrics,
        "key_metric": state.key_metric,
        "better": state.key_metric.as_ref().map(|_| state.better),
        "best_metric": state.best_metric.map(number),
        "best_epoch": state.best_epoch,
        "seconds": seconds,
        "tuning": { "kernels": tuning.kernels, "seconds": tuning.seconds },
        "event_seconds": engine.event_times(),
        "event_counts": engine.event_counts(),
        "handlers": handlers,
    });
    let text = serde_json::to_string_pretty(&summary)? + "\n";
    folders::replace(&folder.summary(), &text)
}

/// JSON has no word for infinite and not-a-number values, such as a distance to what is not there: they become text.
fn number(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { json!(value.to_string()) }
}
