//! The trainings of another program, from the lines that its script printed.

use std::path::Path;

use serde::Deserialize;

use super::super::course::Point;
use super::super::peer;
use super::record::{Record, Settings};
use super::table::Row;
use crate::error::Outcome;

/// A line of `docs/benches/ladder_peer.py`.
#[derive(Deserialize)]
struct Training {
    bench: String,
    target: f64,
    every: u64,
    max_epochs: u64,
    device: String,
    threads: usize,
    row: String,
    seed: u64,
    seconds: Option<f64>,
    target_epoch: Option<u64>,
    epoch_seconds: Option<f64>,
    prepare_seconds: f64,
    epochs: u64,
    metric: String,
    best: f64,
    total: f64,
    curve: Vec<Point>,
}

impl Training {
    /// The first setting that differs.
    fn difference(&self, ours: &Settings) -> Option<String> {
        peer::difference(&[
            ("bench", self.bench.clone(), "ladder".to_owned()),
            ("target", self.target.to_string(), ours.target.to_string()),
            ("every", self.every.to_string(), ours.every.to_string()),
            ("max_epochs", self.max_epochs.to_string(), ours.max_epochs.to_string()),
            ("device", self.device.clone(), ours.device.clone()),
            ("threads", self.threads.to_string(), ours.threads.to_string()),
        ])
    }

    fn record(self, settings: &Settings) -> Record {
        Record {
            bench: self.bench,
            settings: settings.clone(),
            row: self.row,
            seed: self.seed,
            changes: std::collections::BTreeMap::new(),
            seconds: self.seconds,
            target_epoch: self.target_epoch,
            epoch_seconds: self.epoch_seconds,
            prepare_seconds: self.prepare_seconds,
            epochs: self.epochs,
            metric: self.metric,
            best: self.best,
            total: self.total,
            curve: self.curve,
        }
    }
}

/// The rows of a file, each with all of its trainings, in the order of the file.
///
/// # Errors
/// A file that cannot be read, a line that is no training, other settings than these.
pub fn read(path: &Path, settings: &Settings) -> Outcome<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for peer::Line { peer, fields } in peer::read(path, |training: &Training| training.difference(settings))? {
        let record = fields.record(settings);
        match rows.iter_mut().find(|row| row.name == record.row && row.peer.as_ref() == Some(&peer)) {
            Some(row) => row.records.push(record),
            None => rows.push(Row { name: record.row.clone(), records: vec![record], skipped: None, peer: Some(peer) }),
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::record::tests::settings;
    use super::*;

    /// A line as the script prints it.
    fn line(row: &str, seed: u64, target: f64) -> Value {
        json!({
            "peer": "monai", "monai": "1.6.1", "torch": "2.15.0", "threads": 2, "bench": "ladder", "recipe": "demo",
            "data": "hard", "target": target, "every": 2, "max_epochs": 60, "device": "cpu", "amp": "none", "row": row,
            "seed": seed, "seconds": null, "target_epoch": null, "epoch_seconds": 3.0, "prepare_seconds": 0.5,
            "epochs": 60, "metric": "dice", "best": 0.4, "total": 200.0,
            "curve": [{ "epoch": 2, "seconds": 7.0, "value": null }],
        })
    }

    fn file(lines: &[Value]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(file.path(), text).expect("written");
        file
    }

    #[test]
    fn a_row_has_all_its_seeds() {
        let file = file(&[line("plain", 0, 0.8), line("plain", 1, 0.8), line("cache", 0, 0.8)]);
        let rows = read(file.path(), &settings()).unwrap_or_else(|failure| panic!("{}", failure.line()));
        let found: Vec<_> = rows.iter().map(|row| (row.title(), row.records.len())).collect();
        assert_eq!(found, [("plain (monai)".to_owned(), 2), ("cache (monai)".to_owned(), 1)]);
    }

    #[test]
    fn other_settings_are_refused() {
        let said = |lines: &[Value]| {
            read(file(lines).path(), &settings()).map_or_else(|failure| failure.line(), |_| String::new())
        };
        let other = said(&[line("plain", 0, 0.8), line("plain", 1, 0.9)]);
        assert!(other.contains("line 2") && other.contains("target 0.9, and here it is 0.8"), "{other}");
        assert!(said(&[]).contains("no measurement"));
        assert!(said(&[json!({ "peer": "monai" })]).contains("line 1"));
    }
}
