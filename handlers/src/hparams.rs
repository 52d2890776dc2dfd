//! The settings of a run for the page HPARAMS of TensorBoard.
//!
//! A run is a session with its settings; TensorBoard compares the sessions of a folder by their settings and
//! the last values of their curves. No experiment is written: TensorBoard takes the first one that it finds,
//! and would show the settings of that run's recipe alone. Without one it collects those of all sessions.

use std::collections::BTreeMap;

use hearth_engine::HandlerError;
use protobuf::Message;
use protobuf::well_known_types::Value as ProtoValue;
use serde_json::Value;
use tensorboard_proto::api::Status;
use tensorboard_proto::plugin_hparams::{HParamsPluginData, SessionEndInfo, SessionStartInfo};

use crate::event_file::{Curves, now};

/// TensorBoard's name of the page.
pub(crate) const PLUGIN: &str = "hparams";

const START: &str = "_hparams_/session_start_info";
const END: &str = "_hparams_/session_end_info";

/// The tables of a recipe whose values are settings.
const TABLES: [&str; 8] =
    ["network", "discriminator", "loss", "optimizer", "schedule", "training", "adversarial", "inferer"];

/// Keys that say where a run computes, not what it learns.
const PLACES: [&str; 2] = ["training.device", "training.tune"];

/// The longest list that is a setting.
const LONGEST: usize = 8;

/// The settings of a run, from what handlers can ask about it (`Host::run_info`): the single values and short
/// lists of its recipe by their keys, and the size of network and data.
pub(crate) fn settings(info: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for table in TABLES {
        collect(&mut found, table, &info["recipe"][table]);
    }
    PLACES.iter().for_each(|place| drop(found.remove(*place)));
    let facts = [
        ("network.parameters", info["parameters"]["trainable"].as_u64()),
        ("data.training", info["data"]["training"].as_u64()),
        ("ranks", info["world_size"].as_u64()),
    ];
    found.extend(facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), Value::from(fact?)))));
    found
}

fn collect(found: &mut BTreeMap<String, Value>, key: &str, value: &Value) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| collect(found, &format!("{key}.{name}"), value))
        }
        Value::Array(items) => {
            let words: Option<Vec<String>> = items.iter().map(word).collect();
            if let Some(words) = words.filter(|words| (1..=LONGEST).contains(&words.len())) {
                found.insert(key.to_owned(), Value::from(words.join(", ")));
            }
        }
        single => drop(found.insert(key.to_owned(), single.clone())),
    }
}

/// A single value as text.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Writes the beginning of a session.
pub(crate) fn begin(curves: &mut Curves, step: u64, settings: &BTreeMap<String, Value>) -> Result<(), HandlerError> {
    let mut session = SessionStartInfo::new();
    for (name, value) in settings {
        let mut setting = ProtoValue::new();
        match value {
            Value::Bool(value) => setting.set_bool_value(*value),
            Value::Number(number) => setting.set_number_value(number.as_f64().unwrap_or(f64::NAN)),
            value => setting.set_string_value(word(value).unwrap_or_default()),
        }
        session.mut_hparams().insert(name.clone(), setting);
    }
    session.set_start_time_secs(now());
    let mut data = HParamsPluginData::new();
    data.set_session_start_info(session);
    write(curves, START, step, &data)
}

/// Writes the end of a session.
pub(crate) fn end(curves: &mut Curves, step: u64, failed: bool) -> Result<(), HandlerError> {
    let mut session = SessionEndInfo::new();
    session.set_status(if failed { Status::STATUS_FAILURE } else { Status::STATUS_SUCCESS });
    session.set_end_time_secs(now());
    let mut data = HParamsPluginData::new();
    data.set_session_end_info(session);
    write(curves, END, step, &data)
}

fn write(curves: &mut Curves, tag: &str, step: u64, data: &HParamsPluginData) -> Result<(), HandlerError> {
    let bytes = data.write_to_bytes().map_err(|error| HandlerError::new(error.to_string()))?;
    curves.plugin_data(tag, step, PLUGIN, bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_the_single_values_of_a_recipe() {
        let info = json!({
            "recipe": {
                "labels": ["a", "b"],
                "network": { "name": "UNet", "channels": [16, 32], "dropout": 0.1, "act": ["relu", {}], "norm": null },
                "optimizer": { "name": "AdamW", "lr": 1e-3, "groups": [{ "params": "*" }] },
                "training": { "epochs": 20, "device": "cuda:0", "clip": { "norm": 1.0 }, "metrics": ["mean_dice"] },
                "loss": { "name": "DiceLoss", "softmax": true, "weight": [1, 1, 1, 1, 1, 1, 1, 1, 1] },
            },
            "parameters": { "total": 12, "trainable": 10 },
            "data": { "training": 3 },
            "world_size": 2,
        });
        let found = settings(&info);
        let expected = json!({
            "network.name": "UNet", "network.channels": "16, 32", "network.dropout": 0.1,
            "optimizer.name": "AdamW", "optimizer.lr": 1e-3,
            "training.epochs": 20, "training.clip.norm": 1.0, "training.metrics": "mean_dice",
            "loss.name": "DiceLoss", "loss.softmax": true,
            "network.parameters": 10, "data.training": 3, "ranks": 2,
        });
        assert_eq!(serde_json::to_value(found).ok(), Some(expected));
        assert_eq!(settings(&json!({})), BTreeMap::new());
    }
}
