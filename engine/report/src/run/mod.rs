//! Reads a run's folder, each file separately, so that a missing or damaged file only removes its own
//! part of the page.

mod cases;
mod checkpoints;
mod confusion;
mod curves;
pub(crate) mod files;
mod machine;
mod progress;
mod record;
mod state;
mod summary;
pub(crate) mod warnings;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

pub use cases::{CaseMetric, CaseRow, Cases};
pub use checkpoints::Checkpoint;
pub use confusion::Confusion;
pub use curves::{Epoch, Step};
pub use machine::{Column, Machine, Phase, energy};
pub use progress::{Latest, Progress};
pub use record::Record;
pub use state::{Lock, State};
pub use summary::{EventTime, HandlerTime, Summary};
pub use warnings::Warning;

use crate::error::ReportError;
use crate::text::counted;

/// The files with measured cases in a run's folder: those of a cross-validation's fold, and those of
/// `hearth evaluate -o`.
const CASES: [&str; 3] = ["validation.json", "report.json", "evaluation/report.json"];

/// A run, as read from its folder.
#[derive(Clone, Debug)]
pub struct Run {
    /// The folder, as it was given.
    pub folder: PathBuf,
    /// The name on the page.
    pub name: String,
    /// `recipe.toml`.
    pub recipe: String,
    /// `run.json`.
    pub record: Option<Record>,
    /// `summary.json`.
    pub summary: Option<Summary>,
    /// The epochs, from `metrics.csv` and `log.jsonl`.
    pub epochs: Vec<Epoch>,
    /// The loss of some steps, from `log.jsonl`.
    pub steps: Vec<Step>,
    /// The best value of the key metric and its epoch, from `log.jsonl`.
    pub best_of_log: Option<(f64, u64)>,
    /// The key metric and whether a higher value of it is better, from `log.jsonl`.
    pub key_of_log: Option<(String, bool)>,
    /// The error that ended the run, from `log.jsonl`.
    pub error: Option<String>,
    /// The warnings from `warnings.jsonl`, in their order.
    pub warnings: Vec<Warning>,
    /// The checkpoints in `checkpoints/`.
    pub checkpoints: Vec<Checkpoint>,
    /// The measured cases.
    pub cases: Option<Cases>,
    /// The confusion matrix of the classes of whole images.
    pub confusion: Option<Confusion>,
    /// The machine.
    pub machine: Option<Machine>,
    /// Whether the run is still running, or how it ended.
    pub state: State,
    /// The bundled recipe that this one is based on: its name, and its resolved text, in the form of
    /// `recipe.toml`.
    pub bundled: Option<(String, String)>,
    /// Missing or damaged parts, each with how to fix it.
    pub gaps: Vec<String>,
}

impl Run {
    /// Reads the folder of a run. Only the recipe is required: other parts that are missing or damaged
    /// are listed in [`gaps`](Self::gaps).
    ///
    /// # Errors
    /// A folder that is not a run, or a recipe that cannot be read.
    pub fn read(folder: &Path) -> Result<Self, ReportError> {
        let recipe = match folder.is_dir() {
            true => files::text(&folder.join("recipe.toml"))?,
            false => None,
        };
        let recipe =
            recipe.ok_or_else(|| ReportError::NoRun { path: folder.to_owned(), advice: advice_for(folder) })?;
        let mut gaps = Vec::new();
        let at = |name: &str| folder.join(name);
        // Read before the other files: a run that ends in between is still shown as running, and is
        // read again.
        let lock = state::Lock::of(folder);
        let record = kept(Record::read(&at("run.json")), &mut gaps);
        let summary = kept(Summary::read(&at("summary.json")), &mut gaps);
        let log = kept(curves::Log::read(&at("log.jsonl")), &mut gaps);
        let table = kept(curves::table(&at("metrics.csv")), &mut gaps);
        let checkpoints =
            checkpoints::list(&at("checkpoints"), record.as_ref().and_then(|record| record.id.as_deref())).map(Some);
        let checkpoints = kept(checkpoints, &mut gaps).unwrap_or_default();
        let cases = CASES.iter().find_map(|name| kept(Cases::read(&at(name)), &mut gaps));
        let machine = kept(Machine::read(folder), &mut gaps);
        let state = State::of(lock, summary.as_ref(), log.as_ref());
        let mut run = Self {
            folder: folder.to_owned(),
            name: name_of(folder),
            recipe,
            record,
            summary,
            epochs: Vec::new(),
            steps: Vec::new(),
            best_of_log: None,
            key_of_log: None,
            error: None,
            warnings: kept(warnings::read(&at("warnings.jsonl")), &mut gaps).unwrap_or_default(),
            checkpoints,
            confusion: cases.as_ref().and_then(|cases| cases.confusion.clone()),
            cases,
            machine,
            state,
            bundled: None,
            gaps,
        };
        run.add_curves(log, table);
        run.name_gaps();
        Ok(run)
    }

    /// The runs of a path: itself, or the folds that it holds, in their order.
    pub fn find(path: &Path) -> Vec<PathBuf> {
        let is_run = |folder: &Path| folder.join("recipe.toml").is_file();
        let folds = (0..).map(|fold| path.join(format!("fold{fold}"))).take_while(|fold| fold.is_dir());
        let folds: Vec<PathBuf> = folds.filter(|fold| is_run(fold)).collect();
        if is_run(path) || folds.is_empty() { vec![path.to_owned()] } else { folds }
    }

    /// Reads the measured cases from `report.json` of `hearth evaluate -o DIR`, given by the file or
    /// its folder.
    ///
    /// # Errors
    /// A file that does not exist, or is not such a report.
    pub fn cases_from(&mut self, path: &Path) -> Result<(), ReportError> {
        self.cases = Some(read_cases(path)?);
        self.confusion = self.cases.as_ref().and_then(|cases| cases.confusion.clone()).or(self.confusion.take());
        self.gaps.retain(|gap| !gap.starts_with(NO_CASES));
        Ok(())
    }

    /// Counts the confusion of the classes from `scores.csv` of `hearth predict` and a table whose
    /// first column is the image or case and whose `column` is its class.
    ///
    /// # Errors
    /// A file that is missing or of another kind, or files without a common image.
    pub fn confusion_from(&mut self, scores: &Path, truth: &Path, column: &str) -> Result<(), ReportError> {
        self.confusion = Some(Confusion::compare(scores, truth, column)?);
        Ok(())
    }

    /// The name of the key metric. The log of a run without a summary may not name it; then it is the
    /// metric whose value in the best epoch is the best value.
    pub fn key_metric(&self) -> Option<&str> {
        let of_cases = || self.cases.as_ref().and_then(Cases::key).map(|key| key.name.as_str());
        let of_log = || {
            if let Some((key, _)) = &self.key_of_log {
                return Some(key.as_str());
            }
            let (best, epoch) = self.best_of_log?;
            let epoch = self.epochs.iter().find(|known| known.epoch == epoch)?;
            epoch.metrics.iter().find(|(_, value)| *value == best).map(|(name, _)| name.as_str())
        };
        let of_summary = self.summary.as_ref().and_then(|summary| summary.key_metric.as_deref());
        of_summary.or_else(of_log).or_else(of_cases)
    }

    /// Whether a higher value of the key metric is better, if the files specify it.
    pub fn higher_is_better(&self) -> Option<bool> {
        let of_summary = self.summary.as_ref().and_then(|summary| summary.higher_is_better);
        let of_cases = || self.cases.as_ref().and_then(Cases::key).map(|key| key.higher_is_better);
        of_summary.or(self.key_of_log.as_ref().map(|(_, higher)| *higher)).or_else(of_cases)
    }

    /// The number of epochs in the recipe.
    pub fn max_epochs(&self) -> Option<u64> {
        let epochs = self.recipe.parse::<toml::Table>().ok()?.get("training")?.get("epochs")?.as_integer()?;
        u64::try_from(epochs).ok()
    }

    /// Whether the summary only covers the last of several processes.
    pub fn is_resumed(&self) -> bool {
        let steps = self.epochs.last().map_or(0, |epoch| epoch.iteration);
        let interrupted = |checkpoint: &Checkpoint| checkpoint.tag == "interrupted" && checkpoint.iteration < steps;
        let of_epochs: f64 = self.epochs.iter().filter_map(|epoch| epoch.seconds).sum();
        let seconds = self.summary.as_ref().and_then(|summary| summary.seconds);
        self.checkpoints.iter().any(interrupted)
            || self.machine.as_ref().is_some_and(|machine| !machine.resumed.is_empty())
            || seconds.is_some_and(|seconds| seconds < of_epochs)
    }

    /// The key metric's best value and its epoch.
    pub fn best(&self) -> Option<(f64, u64)> {
        let of_summary = || self.summary.as_ref().and_then(|summary| summary.best.zip(summary.best_epoch));
        // The summary of a resumed run may be that of an earlier process while it is running.
        if self.state.is_running() { self.best_of_log.or_else(of_summary) } else { of_summary().or(self.best_of_log) }
    }

    /// The title of the recipe, or else the name of the folder.
    pub fn task(&self) -> &str {
        self.summary.as_ref().and_then(|summary| summary.task.as_deref()).unwrap_or(&self.name)
    }

    /// The title of the recipe, which is known before there is a summary.
    pub fn title(&self) -> String {
        let own = || {
            let recipe = self.recipe.parse::<toml::Table>().ok()?;
            let text = |key: &str| recipe.get(key).and_then(toml::Value::as_str).map(str::to_owned);
            text("title").or_else(|| text("task"))
        };
        let of_summary = self.summary.as_ref().and_then(|summary| summary.task.clone());
        of_summary.or_else(own).unwrap_or_else(|| self.name.clone())
    }

    /// Combines the rows of the table with the times of the log; if one of the two is missing, uses the
    /// other.
    fn add_curves(&mut self, log: Option<curves::Log>, table: Option<(Vec<Epoch>, usize)>) {
        let has = |present: bool, name: &str| match present {
            true => None,
            false => Some(name.to_owned()),
        };
        let missing = [has(log.is_some(), "log.jsonl"), has(table.is_some(), "metrics.csv")];
        let log = log.unwrap_or_default();
        let (mut epochs, damaged) = table.unwrap_or_default();
        if epochs.is_empty() {
            epochs.clone_from(&log.epochs);
        }
        let by_epoch: HashMap<u64, &Epoch> = log.epochs.iter().map(|epoch| (epoch.epoch, epoch)).collect();
        for epoch in &mut epochs {
            if let Some(known) = by_epoch.get(&epoch.epoch) {
                (epoch.seconds, epoch.wall_seconds, epoch.loss) = (known.seconds, known.wall_seconds, known.loss);
            }
        }
        let cut = usize::from(log.cut && !self.state.is_running());
        for (name, count) in [("log.jsonl", log.damaged + cut), ("metrics.csv", damaged)] {
            if count > 0 {
                let (path, lines) = (self.folder.join(name), counted(count, "line"));
                let advice = "a run that is resumed writes its last lines again";
                self.gaps.push(format!("{}: {lines} cut off or damaged, and skipped; {advice}", path.display()));
            }
        }
        let damaged_before = |name: &str| self.gaps.iter().any(|gap| gap.contains(name));
        let missing: Vec<String> = missing.into_iter().flatten().filter(|name| !damaged_before(name)).collect();
        if !missing.is_empty() {
            let (names, folder) = (missing.join(" and "), self.folder.display());
            let advice = "the recipe may list a MetricLog with other names, or the run has not completed an epoch";
            self.gaps.push(format!("{folder} has no {names}: curves are incomplete; {advice}"));
        }
        (self.epochs, self.steps) = (epochs, log.steps);
        (self.best_of_log, self.key_of_log, self.error) = (log.best, log.key, log.error);
    }

    /// Adds missing parts, apart from damaged files, to the gaps.
    fn name_gaps(&mut self) {
        let folder = self.folder.display().to_string();
        let damaged = |gaps: &[String], name: &str| gaps.iter().any(|gap| gap.contains(name));
        if self.summary.is_none() && !damaged(&self.gaps, "summary.json") {
            let why = match self.state {
                State::Running(_) => "it is still running: hearth watch RUN",
                State::Killed(_) => "it was killed; resume it: hearth train --resume --out RUN",
                _ => "it was killed, or comes from another program; resume it: hearth train --resume --out RUN",
            };
            self.gaps.push(format!("{folder} has no summary.json, so outcome and times are unknown: {why}"));
        }
        if self.record.is_none() && !damaged(&self.gaps, "run.json") {
            let why = "runs of earlier versions have none; the data set and its cases are not named";
            self.gaps.push(format!("{folder} has no run.json: {why}"));
        }
        let only_losses = |epoch: &Epoch| epoch.metrics.iter().all(|(name, _)| name.contains("loss"));
        // A run that generates images has no labels to compare with, and one without a checkpoint has
        // no network.
        let generates = !self.epochs.is_empty() && self.epochs.iter().all(only_losses);
        let validates = !generates && !self.checkpoints.is_empty();
        if self.cases.is_none() && !damaged(&self.gaps, "report.json") && validates {
            let how = "measure them: hearth evaluate RUN --data DIR -o RUN/evaluation";
            self.gaps.push(format!("{NO_CASES} of {folder}; {how}"));
        }
    }
}

/// The start of the gap that an evaluation closes.
const NO_CASES: &str = "There are no values of single cases";

/// Reads `report.json` of `hearth evaluate -o DIR`, given by the file or its folder.
///
/// # Errors
/// A file that does not exist, or is not such a report.
pub fn read_cases(path: &Path) -> Result<Cases, ReportError> {
    let file = if path.is_dir() { path.join("report.json") } else { path.to_owned() };
    let advice = "give the folder that `hearth evaluate -o DIR` wrote, or its report.json";
    Cases::read(&file)?.ok_or_else(|| ReportError::damaged(&file, "does not exist", advice))
}

/// The value that was read; on an error `None`, and the error is added to the gaps.
fn kept<T>(read: Result<Option<T>, ReportError>, gaps: &mut Vec<String>) -> Option<T> {
    match read {
        Ok(found) => found,
        Err(error) => {
            gaps.push(error.to_string());
            None
        }
    }
}

/// The folder's name, preceded by the parent's name if it is not specific.
fn name_of(folder: &Path) -> String {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let own = name(&folder).unwrap_or_else(|| folder.display().to_string());
    match folder.parent().and_then(name) {
        Some(parent) if own == "run" || own.starts_with("fold") => format!("{parent}/{own}"),
        _ => own,
    }
}

/// The folder to give instead of one that is not a run.
fn advice_for(folder: &Path) -> String {
    if !folder.exists() {
        return "there is no such folder".to_owned();
    }
    if folder.is_file() {
        return "it is a file; give the folder of a run".to_owned();
    }
    let inner = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut runs: Vec<PathBuf> = inner.filter(|path| path.join("recipe.toml").is_file()).collect();
    runs.sort_unstable();
    match runs.first() {
        Some(run) => format!("did you mean {}?", run.display()),
        None => "give the folder that `hearth train --out` made".to_owned(),
    }
}
