//! `summary.json`: results and times. Values that an earlier version did not write are `None`.

use std::path::Path;

use serde_json::Value;

use super::files::{number, numbers, object, word};
use crate::error::ReportError;

/// The results of a run, and the times of its parts.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The version of the program.
    pub version: Option<String>,
    /// The recipe's title.
    pub task: Option<String>,
    /// `completed`, `terminated`, `interrupted` or `failed`.
    pub outcome: Option<String>,
    /// The reason for an early end or a failure.
    pub why: Option<String>,
    /// The device's name.
    pub device: Option<String>,
    /// The precision of the forward pass.
    pub precision: Option<String>,
    /// The seed.
    pub seed: Option<u64>,
    /// The number of ranks.
    pub ranks: Option<u64>,
    /// The epoch in which it ended.
    pub epochs: Option<u64>,
    /// The number of steps.
    pub iterations: Option<u64>,
    /// Metrics at the end.
    pub metrics: Vec<(String, f64)>,
    /// The metric that selects the best checkpoint.
    pub key_metric: Option<String>,
    /// Whether a higher value of it is better.
    pub higher_is_better: Option<bool>,
    /// Its best value.
    pub best: Option<f64>,
    /// The epoch of that value.
    pub best_epoch: Option<u64>,
    /// The total time in seconds, caches included.
    pub seconds: Option<f64>,
    /// The time in seconds that was spent on choosing kernels for the device.
    pub tuning_seconds: Option<f64>,
    /// The time of each event's handlers.
    pub events: Vec<EventTime>,
    /// The time of each handler.
    pub handlers: Vec<HandlerTime>,
    /// The time that each rank waited, by phase.
    pub waits: Vec<Vec<(String, f64)>>,
}

/// Time in all handlers of an event.
#[derive(Clone, Debug)]
pub struct EventTime {
    /// The event's name.
    pub name: String,
    /// The number of times it was fired.
    pub count: Option<u64>,
    /// Seconds in its handlers.
    pub seconds: f64,
}

/// The time of a handler, and its failures.
#[derive(Clone, Debug)]
pub struct HandlerTime {
    /// The engine whose events it handles.
    pub engine: String,
    /// Its name.
    pub name: String,
    /// The number of calls.
    pub calls: u64,
    /// Seconds in it.
    pub seconds: f64,
    /// The number of failures, the first one, and whether the handler was disabled.
    pub failure: Option<(u64, String, bool)>,
}

impl Summary {
    /// Reads the file; `None` if it does not exist.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, ReportError> {
        let advice = "results and times are missing from the page; resume the run to write it again";
        Ok(object(path, advice)?.map(|value| Self::of(&value)))
    }

    fn of(value: &Value) -> Self {
        let text = |key: &str| word(&value[key]);
        let count = |key: &str| value[key].as_u64();
        let events = numbers(&value["event_seconds"]).into_iter().map(|(name, seconds)| EventTime {
            count: value["event_counts"][&name].as_u64(),
            name,
            seconds,
        });
        let waits = value["waits"].as_array().into_iter().flatten().map(|rank| {
            let phases = rank["phases"].as_object().into_iter().flatten();
            phases.filter_map(|(name, phase)| Some((name.clone(), number(&phase["seconds"])?))).collect()
        });
        Self {
            version: text("hearth"),
            task: text("task"),
            outcome: text("outcome"),
            why: text("why"),
            device: text("device"),
            precision: text("precision"),
            seed: count("seed"),
            ranks: count("world_size"),
            epochs: count("epochs"),
            iterations: count("iterations"),
            metrics: numbers(&value["metrics"]),
            key_metric: text("key_metric"),
            higher_is_better: value["better"].as_str().map(|word| word != "lower"),
            best: number(&value["best_metric"]),
            best_epoch: count("best_epoch"),
            seconds: number(&value["seconds"]),
            tuning_seconds: number(&value["tuning"]["seconds"]),
            events: events.collect(),
            handlers: value["handlers"].as_array().into_iter().flatten().filter_map(handler).collect(),
            waits: waits.collect(),
        }
    }
}

fn handler(value: &Value) -> Option<HandlerTime> {
    let failure = value["errors"].as_u64().filter(|errors| *errors > 0).map(|errors| {
        let first = word(&value["first_error"]).unwrap_or_default();
        (errors, first, value["disabled"].as_bool().unwrap_or_default())
    });
    Some(HandlerTime {
        engine: word(&value["engine"]).unwrap_or_default(),
        name: word(&value["name"])?,
        calls: value["calls"].as_u64().unwrap_or_default(),
        seconds: number(&value["seconds"])?,
        failure,
    })
}
