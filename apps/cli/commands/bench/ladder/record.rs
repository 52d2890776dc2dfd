//! One training of the ladder as a line of JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::course::Point;
use super::super::reach::Reached;
use super::rungs::Rung;

/// The settings that all trainings of a table share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The name of the recipe.
    pub recipe: String,
    /// The hash of the recipe that the rows change.
    pub recipe_hash: String,
    /// The name or description of the data.
    pub data: String,
    /// The value of the key metric at which a training ends.
    pub target: f64,
    /// The number of epochs between validations.
    pub every: u64,
    /// The maximum number of epochs.
    pub max_epochs: u64,
    /// The device.
    pub device: String,
    /// The mixed precision of the row AMP.
    pub amp: String,
    /// The number of threads.
    pub threads: usize,
}

impl Settings {
    /// The first setting that differs: its name, the other's value and this one's.
    pub fn difference(&self, other: &Settings) -> Option<(String, String, String)> {
        let [mine, other] = [self, other].map(|settings| serde_json::to_value(settings).unwrap_or_default());
        let (mine, other) = (mine.as_object()?.clone(), other.as_object()?.clone());
        mine.into_iter().find_map(|(key, value)| {
            let other = other.get(&key).cloned().unwrap_or_default();
            (value != other).then(|| (key, other.to_string(), value.to_string()))
        })
    }
}

/// A finished training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The benchmark's name.
    pub bench: String,
    /// The settings of the table.
    #[serde(flatten)]
    pub settings: Settings,
    /// The name of the row.
    pub row: String,
    /// The seed.
    pub seed: u64,
    /// The keys that the row changes, and their values.
    pub changes: BTreeMap<String, String>,
    /// Seconds until the target was reached, with preparation and validations; `None` if it was not.
    pub seconds: Option<f64>,
    /// The epoch at which the target was reached.
    pub target_epoch: Option<u64>,
    /// The median of an epoch in seconds, without its validation.
    pub epoch_seconds: Option<f64>,
    /// Seconds before the first epoch.
    pub prepare_seconds: f64,
    /// The number of epochs.
    pub epochs: u64,
    /// The name of the key metric.
    pub metric: String,
    /// The best value of the key metric.
    pub best: f64,
    /// Seconds of the whole training.
    pub total: f64,
    /// All validations.
    pub curve: Vec<Point>,
}

impl Record {
    /// The record of a training.
    pub fn new(settings: Settings, rung: &Rung, seed: u64, took: Reached) -> Self {
        Record {
            bench: "ladder".to_owned(),
            settings,
            row: rung.name.clone(),
            seed,
            changes: rung.sets.iter().cloned().collect(),
            seconds: took.hit,
            target_epoch: took.hit.map(|_| took.epochs),
            epoch_seconds: took.epoch.is_finite().then_some(took.epoch),
            prepare_seconds: took.prepared,
            epochs: took.epochs,
            metric: took.metric,
            best: took.best,
            total: took.total,
            curve: took.curve,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Settings of a small table.
    pub fn settings() -> Settings {
        Settings {
            recipe: "demo".to_owned(),
            recipe_hash: "ab12".to_owned(),
            data: "24 volumes".to_owned(),
            target: 0.8,
            every: 2,
            max_epochs: 60,
            device: "cpu".to_owned(),
            amp: "none".to_owned(),
            threads: 2,
        }
    }

    /// A training of a row that took this long.
    pub fn record(row: &str, seed: u64, epoch: f64, hit: Option<(u64, f64)>) -> Record {
        let epochs = hit.map_or(60, |(epoch, _)| epoch);
        let total = hit.map_or(99.0, |(_, seconds)| seconds);
        let curve = vec![
            Point { epoch: 2, seconds: epoch * 2.0, value: None },
            Point { epoch: epochs, seconds: total, value: Some(if hit.is_some() { 0.81 } else { 0.4 }) },
        ];
        let took = Reached {
            prepared: 0.5,
            epoch,
            hit: hit.map(|(_, seconds)| seconds),
            total,
            epochs,
            best: if hit.is_some() { 0.81 } else { 0.4 },
            metric: "dice".to_owned(),
            curve,
        };
        Record::new(settings(), &Rung::new(row, vec![("loss".to_owned(), "{}".to_owned())]), seed, took)
    }

    #[test]
    fn a_line_reads_back_whole() {
        for record in [record("plain", 0, 8.0, None), record("cache", 1, 0.125, Some((14, 9.5)))] {
            let line = serde_json::to_string(&record).expect("JSON");
            assert_eq!(serde_json::from_str::<Record>(&line).expect("a record"), record);
        }
        assert_eq!(record("cache", 1, 0.125, Some((14, 9.5))).target_epoch, Some(14));
        assert_eq!(record("cache", 1, 0.125, None).target_epoch, None);
    }

    #[test]
    fn a_difference_has_a_name() {
        let other = Settings { target: 0.85, ..settings() };
        let (key, was, is) = settings().difference(&other).expect("a difference");
        assert_eq!((key.as_str(), was.as_str(), is.as_str()), ("target", "0.85", "0.8"));
        assert_eq!(settings().difference(&settings()), None);
    }
}
