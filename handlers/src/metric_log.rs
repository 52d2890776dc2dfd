//! Writes metrics to files that other programs read: [`MetricLog`].

use derive_setters::Setters;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hearth_engine::{Context, Event, Handler, HandlerError, Level, Ranks, When};
use hearth_files::csv_text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::text_file::{append, csv_line, read, replace, whole_lines};

/// Options of [`MetricLog`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct MetricLogOptions {
    /// CSV file with one row per epoch: epoch, iteration, learning rate, each metric. Empty for
    /// none.
    #[setters(into)]
    pub csv: PathBuf,
    /// JSON Lines file with one object per line: epochs, iterations, the end. Empty for none.
    #[setters(into)]
    pub jsonl: PathBuf,
    /// Iterations between two lines with the loss; 0 for none. Reading the loss waits for the
    /// device.
    pub every_iterations: u64,
    /// Whether epoch lines have the duration of the epoch in seconds: its pass (`seconds`), and all
    /// of it with validation and checkpoints (`wall_seconds`). Without it, two equal runs write
    /// equal files.
    pub seconds: bool,
}

impl Default for MetricLogOptions {
    fn default() -> Self {
        Self { csv: "metrics.csv".into(), jsonl: "log.jsonl".into(), every_iterations: 10, seconds: true }
    }
}

/// Writes `metrics.csv` and `log.jsonl`, complete after each epoch. An epoch's line has the mean of
/// the losses of all its steps, without a wait for the device in each step.
///
/// A resumed run continues the same files. Rows of epochs and iterations that are repeated are
/// dropped first, and so is a truncated last line, so that no row is duplicated. A run from the
/// start empties the files. Add it after the handlers that compute metrics.
///
/// ```
/// # use hearth_engine::Metrics;
/// # use hearth_handlers::{MetricLog, MetricLogOptions};
/// # use hearth_plugin::testkit::Rehearsal;
/// # let folder = tempfile::tempdir()?;
/// let mut run = Rehearsal::new(MetricLog::new(MetricLogOptions::default(), folder.path()));
/// run.metrics = vec![Metrics::from([("dice".to_owned(), 0.5)])];
/// run.epochs(1, 4)?;
/// let table = std::fs::read_to_string(folder.path().join("metrics.csv"))?;
/// assert_eq!(table, "epoch,iteration,learning_rate,dice\n1,4,,0.5\n");
/// # Ok::<(), hearth_engine::HandlerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MetricLog {
    options: MetricLogOptions,
    csv: Option<PathBuf>,
    jsonl: Option<PathBuf>,
    /// The columns of the CSV file, once they are known.
    columns: Option<Vec<String>>,
    trimmed: bool,
    /// The time at which the current epoch began in this process.
    since: Option<Instant>,
}

impl MetricLog {
    /// A log with these options, in the run's folder.
    pub fn new(options: MetricLogOptions, run: &Path) -> Self {
        let place = |path: &PathBuf| (!path.as_os_str().is_empty()).then(|| run.join(path));
        Self {
            csv: place(&options.csv),
            jsonl: place(&options.jsonl),
            options,
            columns: None,
            trimmed: false,
            since: None,
        }
    }

    /// Drops the rows that will be written again: iteration `iteration` of epoch `epoch` is the
    /// next to complete.
    fn trim(&mut self, epoch: u64, iteration: u64, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        if std::mem::replace(&mut self.trimmed, true) {
            return Ok(());
        }
        if let Some(path) = &self.csv {
            let text = read(path)?;
            let mut lines = whole_lines(&text);
            let header = lines.next().map(split_csv).filter(|cells| cells.starts_with(&LEAD.map(String::from)));
            let before =
                |line: &&str| line.split(',').next().and_then(|cell| cell.parse().ok()).is_some_and(|e: u64| e < epoch);
            let kept: Vec<&str> = lines.filter(|line| header.is_some() && before(line)).collect();
            self.columns = header.filter(|_| !kept.is_empty());
            let head = self.columns.as_ref().map(|columns| csv_line(columns));
            let text: String = head.into_iter().chain(kept.into_iter().map(|line| format!("{line}\n"))).collect();
            replace(path, &text)?;
        }
        if let Some(path) = &self.jsonl {
            let text = read(path)?;
            let mut kept = String::new();
            for line in whole_lines(&text) {
                let Ok(Value::Object(entry)) = serde_json::from_str(line) else {
                    let shown: String = line.chars().take(40).collect();
                    cx.host.log(Level::Warn, &format!("{}: dropped a line that is not JSON: {shown}", path.display()));
                    continue;
                };
                let number = |key: &str| entry.get(key).and_then(Value::as_u64).unwrap_or(u64::MAX);
                let stays = match entry.get("event").and_then(Value::as_str) {
                    Some("iteration") => number("iteration") < iteration,
                    Some("epoch") => number("epoch") < epoch,
                    _ => false,
                };
                if stays {
                    kept.push_str(line);
                    kept.push('\n');
                }
            }
            replace(path, &kept)?;
        }
        Ok(())
    }

    fn write_row(&mut self, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let Some(path) = &self.csv else { return Ok(()) };
        let state = cx.state;
        let known = self.columns.get_or_insert_default();
        let mut columns = known.clone();
        if columns.is_empty() {
            columns.extend(LEAD.map(String::from));
        }
        // Not every workflow has a loss; a metric of this name takes its place.
        let loss = cx.host.output("mean_loss").ok().filter(|_| !state.metrics.contains_key(LOSS));
        if loss.is_some() && !known.iter().any(|name| name == LOSS) {
            columns.push(LOSS.to_owned());
        }
        let fresh: Vec<&String> = state.metrics.keys().filter(|name| state.fresh(name).is_some()).collect();
        columns.extend(fresh.into_iter().filter(|name| !known.contains(name)).cloned());
        if columns != *known {
            // A new metric gets a column; earlier rows get an empty cell.
            let text = read(path)?;
            let wider = csv_line(&columns);
            let rows = text.split_once('\n').map_or("", |(_, rows)| rows);
            let commas = ",".repeat(columns.len() - known.len());
            let rows: String = rows.lines().map(|row| format!("{row}{commas}\n")).collect();
            replace(path, &(wider + &rows))?;
            *known = columns;
        }
        let cells: Vec<String> = known
            .iter()
            .enumerate()
            .map(|(index, name)| match index {
                0 => state.epoch.to_string(),
                1 => state.iteration.to_string(),
                2 => cx.host.learning_rate().map(|rate| rate.to_string()).unwrap_or_default(),
                _ if name == LOSS && loss.is_some() => loss.map(|loss| loss.to_string()).unwrap_or_default(),
                _ => state.fresh(name).map(|value| value.to_string()).unwrap_or_default(),
            })
            .collect();
        append(path, &csv_line(&cells))
    }

    fn write_entry(&self, entry: Value) -> Result<(), HandlerError> {
        match &self.jsonl {
            Some(path) => append(path, &format!("{entry}\n")),
            None => Ok(()),
        }
    }
}

/// The column of the training loss, the mean over the steps of the epoch.
const LOSS: &str = "loss";

/// The columns of every row.
const LEAD: [&str; 3] = ["epoch", "iteration", "learning_rate"];

impl Handler for MetricLog {
    fn name(&self) -> &str {
        "metric_log"
    }

    fn subscriptions(&self) -> Vec<When> {
        let every = self.options.every_iterations;
        let iterations =
            Event::IterationCompleted.filter(move |state, _| every > 0 && state.iteration.is_multiple_of(every));
        vec![Event::IterationStarted | Event::EpochCompleted | Event::Completed | Event::ExceptionRaised | iterations]
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let state = cx.state;
        match event {
            Event::IterationStarted => {
                self.since.get_or_insert_with(Instant::now);
                self.trim(state.epoch, state.iteration, cx)
            }
            Event::IterationCompleted if self.jsonl.is_some() => {
                let loss = cx.host.output("loss").ok();
                self.write_entry(json!({
                    "event": "iteration",
                    "epoch": state.epoch,
                    "iteration": state.iteration,
                    "loss": loss.map(number),
                    "learning_rate": cx.host.learning_rate(),
                }))
            }
            Event::EpochCompleted => {
                self.trim(state.epoch, state.iteration + 1, cx)?;
                self.write_row(cx)?;
                let fresh = state.metrics.iter().filter(|(name, _)| state.fresh(name).is_some());
                let metrics: Map<String, Value> = fresh.map(|(name, value)| (name.clone(), number(*value))).collect();
                let mut entry = json!({
                    "event": "epoch",
                    "epoch": state.epoch,
                    "iteration": state.iteration,
                    "learning_rate": cx.host.learning_rate(),
                    "metrics": metrics,
                    "best": state.best_metric.map(number),
                    "best_epoch": state.best_epoch,
                });
                if let Some(key) = &state.key_metric {
                    (entry["key_metric"], entry["better"]) = (json!(key), json!(state.better));
                }
                // Not every workflow has a loss.
                if let Ok(loss) = cx.host.output("mean_loss") {
                    entry["loss"] = number(loss);
                }
                let whole = self.since.replace(Instant::now()).map(|since| since.elapsed().as_secs_f64());
                let times = [("seconds", state.times.get("epoch_completed").copied()), ("wall_seconds", whole)];
                for (name, seconds) in times.into_iter().filter(|_| self.options.seconds) {
                    if let Some(seconds) = seconds {
                        entry[name] = json!((seconds * 1000.0).round() / 1000.0);
                    }
                }
                self.write_entry(entry)
            }
            Event::Completed | Event::ExceptionRaised => {
                // A run that failed before its first iteration may not know yet where it resumes:
                // drop nothing.
                if event == Event::Completed {
                    self.trim(state.epoch + 1, state.iteration + 1, cx)?;
                }
                // The next run of this process may start from the beginning.
                (self.trimmed, self.since) = (false, None);
                let name = event.name();
                self.write_entry(json!({
                    "event": name,
                    "epoch": state.epoch,
                    "iteration": state.iteration,
                    "error": state.exception,
                }))
            }
            _ => Ok(()),
        }
    }

    fn load_state(&mut self, _: &[u8]) -> Result<(), HandlerError> {
        self.trimmed = false;
        Ok(())
    }

    fn ranks(&self) -> Ranks {
        Ranks::First
    }
}

/// A number in JSON, which has no infinity and no NaN: they become text.
fn number(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { json!(value.to_string()) }
}

/// The cells of a header line.
fn split_csv(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(csv_text(&std::mem::take(&mut cell)).to_owned()),
            _ => cell.push(c),
        }
    }
    cells.push(csv_text(&cell).to_owned());
    cells
}

handler_entry!(MetricLogOptions => "MetricLog", files: [csv, jsonl], paper: "", about: "Writes `metrics.csv` and `log.jsonl`, complete after each epoch.", example: "every_iterations = 10", |options, run| Ok(MetricLog::new(options, run)));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_survive_commas_and_quotes() {
        let cells = ["a", "b,c", "d\"e\"", ""].map(String::from).to_vec();
        assert_eq!(split_csv(csv_line(&cells).trim_end()), cells);
    }
}
