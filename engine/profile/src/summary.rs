//! The time of each kind of work: [`Summary`].

use std::collections::BTreeMap;

use serde::Serialize;

use crate::statistics::Statistics;
use crate::timeline::{Range, Timeline};

/// A line of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The name of the kind of work.
    pub name: String,
    /// The time of each run.
    #[serde(flatten)]
    pub time: Statistics,
    /// Seconds in which its threads were in it, but in no range within it.
    pub own: f64,
}

/// The statistics of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The recorded time in seconds.
    pub seconds: f64,
    /// The parts of a step, in order: the rows of the fast-training guide.
    pub step: Vec<Row>,
    /// Every kind of range, sorted by own time in descending order.
    pub ranges: Vec<Row>,
    /// The number of ranges dropped for lack of room.
    pub lost: u64,
}

/// The rows of a step: their names, and the ranges that they sum up.
const STEP: [(&str, &str); 7] = [
    ("step load", "fetch"),
    ("forward", "forward"),
    ("loss", "loss"),
    ("backward", "backward"),
    ("reduce", "reduce"),
    ("optimizer", "optimizer"),
    ("total", "iteration"),
];

impl Summary {
    /// Computes the statistics of a timeline. A step is the work of the thread of the iterations;
    /// other threads run in parallel and are not counted. `first_load` is the time until the first
    /// batch of the run, in seconds, if it is known.
    pub fn of(timeline: &Timeline, first_load: Option<f64>) -> Self {
        let own = timeline.own_nanos();
        let mut kinds: BTreeMap<String, (Vec<u64>, u64)> = BTreeMap::new();
        for (range, own) in timeline.ranges.iter().zip(&own) {
            let (nanos, sum) = kinds.entry(range.label()).or_default();
            nanos.push(range.nanos);
            *sum += own;
        }
        let mut ranges: Vec<Row> = kinds.into_iter().filter_map(|(name, (nanos, own))| row(name, nanos, own)).collect();
        ranges.sort_by(|a, b| b.own.total_cmp(&a.own));
        let seconds = timeline.nanos as f64 * 1e-9;
        Self { seconds, step: step(timeline, &own, first_load), ranges, lost: timeline.lost }
    }

    /// The row of the step with this name.
    pub fn of_step(&self, name: &str) -> Option<&Row> {
        self.step.iter().find(|row| row.name == name)
    }

    /// The row of a kind of range.
    pub fn of_range(&self, label: &str) -> Option<&Row> {
        self.ranges.iter().find(|row| row.name == label)
    }

    /// Formats two tables for the user, in milliseconds.
    pub fn table(&self) -> String {
        let mut text = format!("{:.2} s recorded\n\n", self.seconds);
        text.push_str(&table("part of a step", &self.step));
        text.push('\n');
        text.push_str(&table("range", &self.ranges));
        if self.lost > 0 {
            text.push_str(&format!("\n{} ranges were left out: record fewer steps\n", self.lost));
        }
        text
    }
}

fn row(name: String, nanos: Vec<u64>, own: u64) -> Option<Row> {
    Some(Row { name, time: Statistics::of(nanos)?, own: own as f64 * 1e-9 })
}

fn step(timeline: &Timeline, own: &[u64], first_load: Option<f64>) -> Vec<Row> {
    let Some(thread) = timeline.named("iteration").map(|range| range.thread).next() else { return Vec::new() };
    let first = first_load.map(|seconds| {
        let time = Statistics::of([(seconds * 1e9) as u64]).unwrap_or_default();
        Row { name: "first load".to_owned(), time, own: seconds }
    });
    // A validation's iterations lie within an iteration or an epoch of the training.
    let validations: Vec<&Range> = timeline.named("validation").filter(|range| range.thread == thread).collect();
    let of_training =
        |range: &Range| !validations.iter().any(|around| around.start <= range.start && range.end() <= around.end());
    let rows = STEP.iter().filter_map(|(name, of)| {
        let (mut nanos, mut sum) = (Vec::new(), 0);
        for (range, own) in timeline.ranges.iter().zip(own) {
            if range.name == *of && range.thread == thread && of_training(range) {
                nanos.push(range.nanos);
                sum += own;
            }
        }
        row((*name).to_owned(), nanos, sum)
    });
    first.into_iter().chain(rows).collect()
}

fn table(title: &str, rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.chars().count()).chain([title.len()]).max().unwrap_or_default();
    let heads = ["count", "min", "mean", "median", "p95", "max"];
    let mut text = format!("{title:<width$}");
    heads.iter().for_each(|head| text.push_str(&format!(" {head:>9}")));
    text.push_str(&format!(" {:>9} {:>9}\n", "total s", "own s"));
    for row in rows {
        let Statistics { count, total, min, mean, median, p95, max } = row.time;
        text.push_str(&format!("{:<width$} {count:>9}", row.name));
        [min, mean, median, p95, max].iter().for_each(|s| text.push_str(&format!(" {:>9.3}", s * 1e3)));
        text.push_str(&format!(" {total:>9.3} {:>9.3}\n", row.own));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(name: &'static str, thread: usize, start: u64, millis: u64) -> Range {
        let (start, nanos) = (start * 1_000_000, millis * 1_000_000);
        Range { name, detail: None, fields: Vec::new(), thread, start, nanos, memory: [0; 2] }
    }

    #[test]
    fn a_step_is_that_of_the_training() {
        let ranges = vec![
            range("fetch", 0, 0, 5),
            range("iteration", 0, 5, 30),
            range("forward", 0, 6, 10),
            range("backward", 0, 17, 15),
            range("validation", 0, 40, 50),
            range("iteration", 0, 41, 40),
            range("forward", 0, 42, 20),
            range("batch", 1, 0, 20),
        ];
        let timeline = Timeline { ranges, threads: vec!["main".into(), "loader".into()], nanos: 90_000_000, lost: 0 };
        let summary = Summary::of(&timeline, Some(0.25));
        let names: Vec<(&str, u64, u64)> = summary
            .step
            .iter()
            .map(|row| (row.name.as_str(), row.time.count, (row.time.total * 1e3).round() as u64))
            .collect();
        let expected =
            [("first load", 1, 250), ("step load", 1, 5), ("forward", 1, 10), ("backward", 1, 15), ("total", 1, 30)];
        assert_eq!(names, expected);
        let forward = summary.of_range("forward").expect("a row");
        assert_eq!((forward.time.count, forward.time.max), (2, 0.02));
        let own = summary.of_range("iteration").expect("a row").own;
        assert!((own - 0.025).abs() < 1e-9, "5 ms of the training's, 20 of the validation's: {own}");
        assert!(summary.table().contains("part of a step"), "{}", summary.table());
    }
}
