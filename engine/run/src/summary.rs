//! `summary.json`: results and timings.

use hearth_engine::{Engine, HandlerTimes, RunEnd, RunError};
use hearth_kernels::{Tuning, memory};
use hearth_train::distributed::Waits;
use hearth_train::{RunFolder, device};
use serde_json::{Map, Value, json};

use crate::folders;
use crate::plan::Plan;
use hearth_recipe::Outcome;

/// Writes the summary of a run, however it ended, from its trainer and its evaluator.
pub fn write(
    folder: &RunFolder,
    plan: &Plan,
    (engine, validation): (&Engine, Option<&Engine>),
    end: Result<&RunEnd, &RunError>,
    seconds: f64,
    tuning: Tuning,
    waits: Option<Vec<Waits>>,
) -> Outcome {
    let state = engine.state();
    let (outcome, why) = match end {
        Ok(RunEnd::Completed) => ("completed", None),
        Ok(RunEnd::Terminated(why)) => ("terminated", Some(why.clone())),
        Ok(RunEnd::Interrupted(why)) => ("interrupted", Some(why.clone())),
        Ok(_) => ("ended", None),
        Err(error) => ("failed", Some(error.to_string())),
    };
    let handlers: Vec<Value> = [Some(engine), validation].into_iter().flatten().flat_map(handlers).collect();
    let metrics: Map<String, Value> =
        state.metrics.iter().map(|(name, value)| (name.clone(), number(*value))).collect();
    let mut summary = json!({
        "hearth": env!("CARGO_PKG_VERSION"),
        "task": plan.recipe.title(),
        "outcome": outcome,
        "why": why,
        "device": device::name(&plan.device),
        "precision": plan.precision,
        "seed": state.seed,
        "world_size": state.world_size,
        "epochs": state.epoch,
        "iterations": state.iteration,
        "metrics": metrics,
        "key_metric": state.key_metric,
        "better": state.key_metric.as_ref().map(|_| state.better),
        "best_metric": state.best_metric.map(number),
        "best_epoch": state.best_epoch,
        "seconds": seconds,
        "peak_memory": { "resident": hearth_machine::peak_resident(), "in_use": memory::peak() },
        "tuning": { "kernels": tuning.kernels, "seconds": tuning.seconds },
        "event_seconds": engine.event_times(),
        "event_counts": engine.event_counts(),
        "handlers": handlers,
    });
    if let Some(waits) = waits {
        summary["waits"] = json!(waits.iter().map(waited).collect::<Vec<_>>());
    }
    let text = serde_json::to_string_pretty(&summary)? + "\n";
    folders::replace(&folder.summary(), &text)
}

/// How long a rank waited for the others, by phase. The one that waits least is the slowest.
fn waited(waits: &Waits) -> Value {
    json!({ "seconds": waits.seconds(), "phases": waits.phases })
}

/// The handlers of an engine: their time and their failures.
fn handlers(engine: &Engine) -> Vec<Value> {
    let one = |times: HandlerTimes| {
        let HandlerTimes { name, calls, seconds, errors, first_error, disabled } = times;
        let mut one = json!({ "engine": engine.state().engine, "name": name, "calls": calls, "seconds": seconds });
        if errors > 0 {
            (one["errors"], one["first_error"], one["disabled"]) = (json!(errors), json!(first_error), json!(disabled));
        }
        one
    };
    engine.handler_times().into_iter().map(one).collect()
}

/// Distances to a missing class may be infinite or NaN, which JSON does not support: they become text.
fn number(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { json!(value.to_string()) }
}
