//! Summarizes Chrome traces, PyTorch's and Hearth's: how long loading, forward pass, backward pass and
//! whole steps took.
//!
//! A trace is read several times from front to back and is never kept, so that memory grows with
//! the number of steps only, not with the gigabytes of a file.

mod phases;
mod read;

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

pub use self::read::TraceError;
use crate::statistics::Statistics;
use phases::Phases;

/// One training step, in seconds. A phase that the trace does not show is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StepTimes {
    /// The number of the step in the trace: N of `ProfilerStep#N`, or the iteration.
    pub number: u64,
    /// Time in which the training thread waited for its batch.
    pub load: Option<f64>,
    /// From the first to the last kernel of the forward pass and the loss, or operator without a
    /// GPU.
    pub forward: Option<f64>,
    /// From the first to the last kernel of the backward pass, or operator without a GPU.
    pub backward: Option<f64>,
    /// The whole step.
    pub step: f64,
}

/// The times of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceSummary {
    /// The program that wrote it: `PyTorch` or `Hearth`.
    pub program: &'static str,
    /// Whether forward and backward passes are times of a GPU's kernels; otherwise of operators on
    /// the CPU.
    pub kernels: bool,
    /// The first load in the trace, in seconds: it includes the start of workers and caches. The
    /// loads of [`steps`](Self::steps) are the others.
    pub first_load: Option<f64>,
    /// The steps, in order.
    pub steps: Vec<StepTimes>,
}

/// Summarizes a trace: `.json`, or the same gzipped or as the only file of a ZIP archive, whatever
/// its name.
///
/// # Errors
/// A file that cannot be read, is damaged, or has no steps: the message says which marks are
/// expected.
pub fn summarize(path: &Path) -> Result<TraceSummary, TraceError> {
    Phases::read(path)
}

impl TraceSummary {
    /// A phase over all steps that show it: `load`, `forward`, `backward`, `step`, in this order.
    pub fn statistics(&self) -> [(&'static str, Option<Statistics>); 4] {
        type Of = fn(&StepTimes) -> Option<f64>;
        let phases: [(&str, Of); 4] = [
            ("load", |step| step.load),
            ("forward", |step| step.forward),
            ("backward", |step| step.backward),
            ("step", |step| Some(step.step)),
        ];
        phases.map(|(name, of)| {
            let nanos = self.steps.iter().filter_map(of).map(|seconds| (seconds * 1e9).round() as u64);
            (name, Statistics::of(nanos))
        })
    }

    /// A table for people, in milliseconds; with `each` a row for every step, too.
    pub fn table(&self, each: bool) -> String {
        let cell = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |seconds| format!("{:.3}", seconds * 1e3));
        let mut text = format!("{:<12}{:>8}", "ms", "steps");
        for head in ["mean", "min", "median", "p95", "max"] {
            let _ = write!(text, "{head:>12}");
        }
        let _ = write!(text, "\n{:<12}{:>8}{:>12}\n", "first load", "", cell(self.first_load));
        for (name, found) in self.statistics() {
            let (count, values) = match found {
                None => (0, [None; 5]),
                Some(Statistics { count, mean, min, median, p95, max, .. }) => {
                    (count, [mean, min, median, p95, max].map(Some))
                }
            };
            let _ = write!(text, "{name:<12}{count:>8}");
            values.into_iter().for_each(|value| {
                let _ = write!(text, "{:>12}", cell(value));
            });
            text.push('\n');
        }
        if each {
            let _ = write!(text, "\n{:<12}{:>12}{:>12}{:>12}{:>12}\n", "step", "load", "forward", "backward", "step");
            for StepTimes { number, load, forward, backward, step } in &self.steps {
                let [load, forward, backward, step] = [*load, *forward, *backward, Some(*step)].map(cell);
                let _ = writeln!(text, "{number:<12}{load:>12}{forward:>12}{backward:>12}{step:>12}");
            }
        }
        text
    }
}
