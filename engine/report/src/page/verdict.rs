//! The head of a page of one run: its result, and how it ended.

use maud::{Markup, html};

use super::table::facts;
use crate::run::{Run, State};
use crate::text::{duration, figure, words};

/// How a run ended: a word, its style class, a sign that is recognisable without colours, and a
/// sentence.
pub struct Outcome {
    /// The word.
    pub word: &'static str,
    /// The style.
    pub class: &'static str,
    /// The sign before the word.
    pub sign: &'static str,
    /// What it means.
    pub meaning: String,
}

/// The outcome of a run, from its files.
pub fn outcome(run: &Run) -> Outcome {
    let summary = run.summary.as_ref();
    let of_files = || run.epochs.last().map(|epoch| epoch.epoch);
    let epochs = summary.and_then(|summary| summary.epochs).filter(|_| !run.state.is_running()).or_else(of_files);
    let after = epochs.map_or(String::new(), |epochs| format!(" in epoch {epochs}"));
    let why = summary.and_then(|summary| summary.why.clone()).or_else(|| run.error.clone());
    let because = why.map_or(String::new(), |why| format!(": {}", why.trim_end_matches('.')));
    let (class, meaning) = match &run.state {
        State::Running(_) => ("good", "It is running.".to_owned()),
        State::Killed(_) => ("bad", format!("Its process was killed{after}. It can be resumed.")),
        State::Completed => ("good", format!("It ran to its end{after}.")),
        State::EndedEarly => ("warn", format!("A handler ended it{after}{because}.")),
        State::Interrupted => ("warn", format!("It was interrupted{after}{because}. It can be resumed.")),
        State::Failed => ("bad", format!("It failed{after}{because}.")),
        State::Unknown if summary.is_some() => ("warn", format!("It ended{after}{because}.")),
        State::Unknown => {
            ("warn", format!("There is no summary: it was killed{after}, or comes from another program."))
        }
    };
    Outcome { word: run.state.word(), class, sign: run.state.sign(), meaning }
}

/// The outcome as a label.
pub fn badge(outcome: &Outcome) -> Markup {
    html! { span.badge.(outcome.class) { span aria-hidden="true" { (outcome.sign) } " " (outcome.word) } }
}

/// The head of a page of one run.
pub fn show(_: usize, run: &Run) -> Markup {
    let outcome = outcome(run);
    let summary = run.summary.clone().unwrap_or_default();
    let epochs = summary.epochs.or_else(|| run.epochs.last().map(|epoch| epoch.epoch));
    let asked = run.max_epochs();
    let mut rows = vec![("Run", html! { (run.name) }), ("Task", html! { (run.task()) })];
    if let Some(epochs) = epochs {
        rows.push(("Epochs", html! { (epochs) @if let Some(asked) = asked { " of " (asked) } }));
    }
    if let Some(iterations) = summary.iterations {
        rows.push(("Steps", html! { (iterations) }));
    }
    if let Some(seconds) = summary.seconds {
        rows.push(("Time", html! { (duration(seconds)) @if run.is_resumed() { " since it was resumed" } }));
    }
    if let Some(device) = &summary.device {
        rows.push(("Device", html! { (device) }));
    }
    if let Some(ranks) = summary.ranks.filter(|ranks| *ranks > 1) {
        rows.push(("Ranks", html! { (ranks) }));
    }
    if let Some(record) = run.record.as_ref().filter(|record| !record.training.is_empty()) {
        let (train, validate) = (record.training.len(), record.validation.len());
        rows.push(("Cases", html! { (train) " train, " (validate) " validate" }));
    }
    html! {
        div.verdict {
            p.says { (badge(&outcome)) " " (outcome.meaning) }
            @match (run.key_metric(), run.best()) {
                (Some(key), Some((best, epoch))) => {
                    p.key {
                        span.value { (figure(best)) }
                        span.what { "best " (words(key)) ", in epoch " (epoch)
                            @if let Some(higher) = summary.higher_is_better {
                                span.aside { @if higher { " (higher is better)" } @else { " (lower is better)" } }
                            }
                        }
                    }
                }
                _ => { p.key { span.what { "No key metric was measured." } } }
            }
            (facts(&rows))
        }
    }
}
