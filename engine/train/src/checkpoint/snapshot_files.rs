//! Converts an engine's [`Snapshot`] to files of a checkpoint: `engine.json`, and one file for each
//! handler that saves something.

use std::collections::BTreeMap;

use hearth_engine::{Metrics, Snapshot, State, Store};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::checkpoint::{Checkpoint, CheckpointError, Files, file_name_of};

/// Fields of the state that hold floats. They are written as text, because a JSON number cannot be
/// NaN and may be read back with a different last digit. A resumed run must have identical bits.
const BEST: &str = "best_metric";
const MAPS: [&str; 2] = ["metrics", "times"];

/// The file of an engine's state.
pub(super) const ENGINE: &str = "engine.json";

#[derive(Serialize, Deserialize)]
struct EngineJson {
    state: Map<String, Value>,
    /// The file of each handler's state.
    handlers: BTreeMap<String, String>,
    /// The file of each value that a handler stores, by handler and key.
    #[serde(default)]
    store: BTreeMap<String, BTreeMap<String, String>>,
}

/// Adds an engine's files under `prefix` (`""` for the trainer, `evaluators/validation/` for an
/// evaluator).
pub(crate) fn write(files: &mut Files, prefix: &str, snapshot: &Snapshot) -> Result<(), serde_json::Error> {
    let mut handlers = BTreeMap::new();
    for (name, bytes) in &snapshot.handlers {
        let file = format!("handlers/{}.bin", file_name_of(name));
        files.insert(format!("{prefix}{file}"), bytes.clone());
        handlers.insert(name.clone(), file);
    }
    let mut store: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (handler, values) in &snapshot.store {
        for (key, value) in values {
            let file = format!("store/{}/{}.bin", file_name_of(handler), file_name_of(key));
            files.insert(format!("{prefix}{file}"), value.clone());
            store.entry(handler.clone()).or_default().insert(key.clone(), file);
        }
    }
    // The floats are removed first, since a non-finite float is not a JSON number.
    let mut plain = snapshot.state.clone();
    let (metrics, times) = (std::mem::take(&mut plain.metrics), std::mem::take(&mut plain.times));
    let best = plain.best_metric.take();
    let Value::Object(mut state) = serde_json::to_value(&plain)? else {
        return Err(serde::ser::Error::custom("the state is not an object"));
    };
    for (key, map) in MAPS.into_iter().zip([metrics, times]) {
        let texts = map.into_iter().map(|(name, number)| (name, Value::from(number.to_string())));
        state.insert(key.to_owned(), Value::Object(texts.collect()));
    }
    state.insert(BEST.to_owned(), best.map_or(Value::Null, |number| number.to_string().into()));
    let json = serde_json::to_vec_pretty(&EngineJson { state, handlers, store })?;
    files.insert(format!("{prefix}engine.json"), json);
    Ok(())
}

/// Reads the files that [`write`] wrote.
pub(crate) fn read(checkpoint: &Checkpoint, prefix: &str) -> Result<Snapshot, CheckpointError> {
    let mismatch = |why: String| CheckpointError::Mismatch { path: checkpoint.path.clone(), part: "engine.json", why };
    let json: EngineJson = serde_json::from_slice(&checkpoint.file(&format!("{prefix}engine.json"))?)
        .map_err(|e| mismatch(format!("it does not parse: {e}")))?;
    let mut state = json.state;
    let mut maps = Vec::new();
    for key in MAPS {
        maps.push(numbers(state.remove(key)).ok_or_else(|| mismatch(format!("`{key}` is not numbers as text")))?);
    }
    let best = match state.remove(BEST) {
        None | Some(Value::Null) => None,
        Some(text) => Some(number(&text).ok_or_else(|| mismatch(format!("`{BEST}` is not a number as text")))?),
    };
    let mut state: State =
        serde_json::from_value(Value::Object(state)).map_err(|e| mismatch(format!("its state does not parse: {e}")))?;
    state.times = maps.pop().unwrap_or_default();
    state.metrics = maps.pop().unwrap_or_default();
    state.best_metric = best;
    let mut handlers = BTreeMap::new();
    for (name, file) in json.handlers {
        handlers.insert(name, checkpoint.file(&format!("{prefix}{file}"))?);
    }
    let mut store: BTreeMap<String, Store> = BTreeMap::new();
    for (handler, values) in json.store {
        for (key, file) in values {
            let value = checkpoint.file(&format!("{prefix}{file}"))?;
            store.entry(handler.clone()).or_default().insert(key, value);
        }
    }
    Ok(Snapshot { state, handlers, store })
}

fn number(text: &Value) -> Option<f64> {
    text.as_str()?.parse().ok()
}

fn numbers(map: Option<Value>) -> Option<Metrics> {
    match map {
        None => Some(Metrics::new()),
        Some(Value::Object(map)) => map.iter().map(|(name, text)| Some((name.clone(), number(text)?))).collect(),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{self, Header};

    fn there_and_back(snapshot: &Snapshot) -> Snapshot {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut files = Files::new();
        write(&mut files, "evaluators/v/", snapshot).expect("plain data");
        let header = Header { tag: "epoch".into(), ..Header::default() };
        checkpoint::write(dir.path(), &header, &files).expect("a checkpoint");
        read(&checkpoint::newest(dir.path()).expect("the checkpoint"), "evaluators/v/").expect("the snapshot")
    }

    #[test]
    fn every_bit_of_every_float_comes_back() {
        let mut state = State::new("trainer");
        (state.epoch, state.iteration, state.epoch_iteration, state.seed) = (7, 123, 4, u64::MAX);
        let mut x = 0.1_f64;
        for i in 0..1000 {
            x = (x * 3.9 * (1.0 - x)).clamp(1e-3, 0.999);
            state.metrics.insert(format!("m{i}"), x * 10_f64.powi(i % 40 - 20));
        }
        state.metrics.insert("infinite".into(), f64::NEG_INFINITY);
        state.times.insert("completed".into(), 1.0 / 3.0);
        state.best_metric = Some(0.1 + 0.2);
        let handlers = [("stats", vec![1, 2, 3]), ("stats#2", vec![]), ("../up", vec![9])];
        let handlers = handlers.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        let values = [("counts", vec![1]), ("../up", vec![])].map(|(key, value)| (key.to_owned(), value));
        let store = [("stats".to_owned(), values.into())].into();
        let snapshot = Snapshot { state, handlers, store };
        assert_eq!(there_and_back(&snapshot), snapshot);
    }

    #[test]
    fn a_metric_that_is_no_number_is_kept() {
        let mut state = State::new("trainer");
        state.metrics.insert("dice".into(), f64::NAN);
        state.best_metric = Some(f64::INFINITY);
        let back = there_and_back(&Snapshot { state, ..Snapshot::default() });
        assert!(back.state.metrics["dice"].is_nan());
        assert_eq!(back.state.best_metric, Some(f64::INFINITY));
    }
}
