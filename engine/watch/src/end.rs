//! How watching ended: [`End`].

use hearth_report::Run;
use hearth_report::run::State;
use hearth_report::text::{duration, figure, words};

/// How watching ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The user left; the run continues.
    Left,
    /// The run completed, or a handler ended it; with its result.
    Good(String),
    /// The run failed, was interrupted or killed, or its folder was removed; with a description.
    Bad(String),
}

impl End {
    /// The end of a run that is over; `None` for a running one.
    pub fn of(run: &Run) -> Option<Self> {
        let said = sentence(run);
        match run.state {
            State::Running(_) => None,
            State::Completed | State::EndedEarly => Some(Self::Good(said)),
            State::Killed(_) | State::Interrupted | State::Failed | State::Unknown => Some(Self::Bad(said)),
        }
    }

    /// Whether the run ended well.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Good(_))
    }

    /// The description of the end.
    pub fn words(&self) -> &str {
        match self {
            Self::Left => "",
            Self::Good(words) | Self::Bad(words) => words,
        }
    }
}

/// The end of a run as a sentence: `runs/a completed in epoch 50: best mean dice 0.9191 in epoch 48, 1
/// min 8 s`.
fn sentence(run: &Run) -> String {
    let summary = run.summary.as_ref();
    let epoch = summary.and_then(|summary| summary.epochs).or_else(|| run.epochs.last().map(|epoch| epoch.epoch));
    let mut said = format!("{} {}", run.name, verb(&run.state));
    if let Some(epoch) = epoch {
        said += &format!(" in epoch {epoch}");
    }
    let mut details = Vec::new();
    details.extend(summary.and_then(|summary| summary.why.clone()).or_else(|| run.error.clone()));
    if let (Some(key), Some((best, epoch))) = (run.key_metric(), run.best()) {
        details.push(format!("best {} {} in epoch {epoch}", words(key), figure(best)));
    }
    details.extend(summary.and_then(|summary| summary.seconds).map(duration));
    if matches!(run.state, State::Killed(_) | State::Interrupted | State::Unknown) {
        let data = run.record.as_ref().and_then(|record| record.data.as_deref()).unwrap_or("DIR");
        details.push(format!("resume it: hearth train --resume --data {data} --out {}", run.folder.display()));
    }
    if !details.is_empty() {
        said += &format!(": {}", details.join(", "));
    }
    said
}

fn verb(state: &State) -> &'static str {
    match state {
        State::Running(_) => "is running",
        State::Killed(_) => "was killed",
        State::Completed => "completed",
        State::EndedEarly => "ended early",
        State::Interrupted => "was interrupted",
        State::Failed => "failed",
        State::Unknown => "ended without a summary",
    }
}
