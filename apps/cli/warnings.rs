//! Warnings of a run, kept in its folder for later viewers: `warnings.jsonl`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// The file in the run's folder.
const FILE: &str = "warnings.jsonl";

/// The file next to results whose records are next to them, too.
const BESIDE: &str = "warnings.hearth.jsonl";

/// The maximum number of warnings kept per run and process, so that a step that warns for each batch
/// does not fill the disk.
const MOST: usize = 1000;

/// The maximum number of warnings kept before the run has a folder.
const EARLY: usize = MOST;

struct Kept {
    file: Option<PathBuf>,
    early: Vec<String>,
    count: usize,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { file: None, early: Vec::new(), count: 0 });

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes warnings to this run's folder from now on, starting with those since the last run.
pub fn keep_in(run: &Path) {
    let mut kept = kept();
    (kept.file, kept.count) = (Some(run.join(FILE)), 0);
    let early = std::mem::take(&mut kept.early);
    early.iter().for_each(|line| kept.write(line));
}

/// Adds the warnings of a command that has written results to a folder: those since its start, in the folder
/// of records, or next to the results.
pub fn add_to(results: &Path, beside: bool) {
    let file = if beside { results.join(BESIDE) } else { results.join("records").join(FILE) };
    let early = std::mem::take(&mut kept().early);
    let folder = file.parent().unwrap_or(results);
    if early.is_empty() || !results.is_dir() || std::fs::create_dir_all(folder).is_err() {
        return;
    }
    // The warnings are also in the program's output.
    let _ = hearth_files::append(&file).and_then(|mut file| file.write_all(early.concat().as_bytes()));
}

/// Ends the recording for the run.
pub fn over() {
    kept().file = None;
}

impl Kept {
    fn add(&mut self, line: String) {
        if self.file.is_some() {
            self.write(&line);
        } else if self.early.len() < EARLY {
            self.early.push(line);
        }
    }

    fn write(&mut self, line: &str) {
        let Some(file) = &self.file else { return };
        self.count += 1;
        if self.count > MOST {
            return;
        }
        let last = line_of("warn", &format!("{MOST} warnings are kept; those that follow are only printed"));
        let line = if self.count == MOST { &last } else { line };
        // The warning is also in the program's output, and the run itself reports a full disk.
        let _ = hearth_files::append(file).and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

fn line_of(level: &str, message: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    let now = (now * 1e3).round() / 1e3;
    format!("{}\n", json!({ "unix_time": now, "level": level, "message": message }))
}

/// The messages since the start that no run has in its folder, for output that programs read.
pub fn so_far() -> Vec<String> {
    let message = |line: &String| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(line["message"].as_str()?.to_owned())
    };
    kept().early.iter().filter_map(message).collect()
}

/// Keeps warnings and errors, as they are printed.
pub struct Warnings;

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        /// The text, and whether the record of a result has it.
        struct Message(String, bool);
        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }

            fn record_bool(&mut self, field: &Field, value: bool) {
                self.1 |= field.name() == "recorded" && value;
            }
        }
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warn",
            _ => return,
        };
        let mut message = Message(String::new(), false);
        event.record(&mut message);
        if !message.1 {
            kept().add(line_of(level, &message.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_ones_are_kept_and_too_many_are_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut kept = Kept { file: None, early: Vec::new(), count: 0 };
        (0..EARLY + 5).for_each(|number| kept.add(line_of("warn", &number.to_string())));
        assert_eq!(kept.early.len(), EARLY);
        kept.file = Some(dir.path().join(FILE));
        (0..MOST + 5).for_each(|_| kept.add(line_of("error", "again\nand again")));
        let text = std::fs::read_to_string(dir.path().join(FILE)).expect("a file");
        assert_eq!(text.lines().count(), MOST);
        let of = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
        assert_eq!(of(text.lines().next().expect("a line"))["message"], "again\nand again");
        assert!(text.lines().last().is_some_and(|line| line.contains("only printed")));
    }
}
