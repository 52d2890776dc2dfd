//! `metrics.csv` and `log.jsonl`: the measured values over the course of a run.

use std::path::Path;

use hearth_files::csv_text;
use serde_json::Value;

use super::files::{number, numbers, text, word};
use crate::error::ReportError;

/// The recorded values of an epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Epoch {
    /// The number of the epoch, from 1.
    pub epoch: u64,
    /// The number of steps so far.
    pub iteration: u64,
    /// The learning rate at the end of the epoch.
    pub learning_rate: Option<f64>,
    /// The metrics that were computed in the epoch.
    pub metrics: Vec<(String, f64)>,
    /// The duration in seconds of its pass over the data.
    pub seconds: Option<f64>,
    /// The duration in seconds of the whole epoch, including validation and checkpoints.
    pub wall_seconds: Option<f64>,
    /// The mean loss over all its steps.
    pub loss: Option<f64>,
}

impl Epoch {
    /// A metric of this epoch.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}

/// The loss of one step, as the log has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The step, from 1.
    pub iteration: u64,
    /// The epoch that it belongs to.
    pub epoch: u64,
    /// Its loss.
    pub loss: f64,
}

/// The lines of `log.jsonl`.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The epochs.
    pub epochs: Vec<Epoch>,
    /// The logged steps, at an interval.
    pub steps: Vec<Step>,
    /// The best value of the key metric so far, and its epoch.
    pub best: Option<(f64, u64)>,
    /// The key metric, and whether a higher value of it is better.
    pub key: Option<(String, bool)>,
    /// Whether it records that the run completed.
    pub completed: bool,
    /// The error that ended the run.
    pub error: Option<String>,
    /// Lines that are not JSON.
    pub damaged: usize,
    /// Whether its last line is incomplete.
    pub cut: bool,
}

impl Log {
    /// Reads the file; `None` if it does not exist. A line that was cut off is counted and skipped.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, ReportError> {
        let Some(text) = text(path)? else { return Ok(None) };
        let mut log = Self::default();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        for line in text[..whole].lines().filter(|line| !line.trim().is_empty()) {
            log.take(line);
        }
        // A running training may be writing its last line.
        let before = log.damaged;
        if !text[whole..].trim().is_empty() {
            log.take(&text[whole..]);
        }
        log.cut = log.damaged > before;
        log.damaged = before;
        Ok(Some(log))
    }

    fn take(&mut self, line: &str) {
        match serde_json::from_str::<Value>(line) {
            Ok(entry) if entry.is_object() => self.add(&entry),
            _ => self.damaged += 1,
        }
    }

    fn add(&mut self, entry: &Value) {
        let count = |key: &str| entry[key].as_u64().unwrap_or_default();
        let (epoch, iteration) = (count("epoch"), count("iteration"));
        match entry["event"].as_str() {
            Some("iteration") => {
                self.steps.extend(number(&entry["loss"]).map(|loss| Step { iteration, epoch, loss }));
            }
            Some("epoch") => {
                let better = entry["better"].as_str().map(|word| word != "lower");
                self.key = word(&entry["key_metric"]).zip(better).or(self.key.take());
                self.best = number(&entry["best"]).zip(entry["best_epoch"].as_u64()).or(self.best);
                self.epochs.push(Epoch {
                    epoch,
                    iteration,
                    learning_rate: number(&entry["learning_rate"]),
                    metrics: numbers(&entry["metrics"]),
                    seconds: number(&entry["seconds"]),
                    wall_seconds: number(&entry["wall_seconds"]),
                    loss: number(&entry["loss"]),
                });
            }
            Some("completed") => self.completed = true,
            _ => self.error = entry["error"].as_str().map(str::to_owned).or(self.error.take()),
        }
    }
}

/// The rows of `metrics.csv`, and the number of invalid ones; `None` if the file does not exist.
pub fn table(path: &Path) -> Result<Option<(Vec<Epoch>, usize)>, ReportError> {
    let Some(text) = text(path)? else { return Ok(None) };
    let advice = "the curves come from log.jsonl alone";
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let head = match reader.headers() {
        Ok(head) if head.get(0) == Some("epoch") => head.clone(),
        // The file is empty until the run has completed an epoch.
        Ok(head) if head.is_empty() => return Ok(Some((Vec::new(), 0))),
        _ => return Err(ReportError::damaged(path, "has no header that begins with `epoch`", advice)),
    };
    let (mut epochs, mut damaged) = (Vec::new(), 0);
    for row in reader.records() {
        match row {
            Ok(row) if row.len() == head.len() && row.get(0).is_some_and(|cell| cell.parse::<u64>().is_ok()) => {
                epochs.push(epoch(&head, &row));
            }
            _ => damaged += 1,
        }
    }
    Ok(Some((epochs, damaged)))
}

fn epoch(head: &csv::StringRecord, row: &csv::StringRecord) -> Epoch {
    let mut epoch = Epoch::default();
    for (name, cell) in head.iter().zip(row) {
        match name {
            "epoch" => epoch.epoch = cell.parse().unwrap_or_default(),
            "iteration" => epoch.iteration = cell.parse().unwrap_or_default(),
            "learning_rate" => epoch.learning_rate = cell.parse().ok(),
            "loss" => epoch.loss = cell.parse().ok(),
            name => epoch.metrics.extend(cell.parse().ok().map(|value| (csv_text(name).to_owned(), value))),
        }
    }
    epoch
}
