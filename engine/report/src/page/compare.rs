//! A table that compares several runs.

use maud::{Markup, html};

use super::verdict::{badge, outcome};
use super::{View, name};
use crate::run::Run;
use crate::text::{NONE, counted, duration, figure, words};

/// The head of a page of several runs: the best run, if all have the same key metric.
pub fn verdict(view: &View<'_>) -> Markup {
    let key = view.runs.iter().find_map(Run::key_metric);
    let higher = view.runs.iter().find_map(Run::higher_is_better).unwrap_or(true);
    let same = view.runs.iter().filter_map(Run::key_metric).all(|other| Some(other) == key);
    let values = view.each().filter_map(|(place, run)| Some((place, run, run.best()?)));
    let best = values.reduce(|a, b| if (b.2.0 > a.2.0) == higher && b.2.0 != a.2.0 { b } else { a });
    let done = view.runs.iter().filter(|run| outcome(run).word == "completed").count();
    let (all, values) = (view.runs.len(), view.runs.iter().filter_map(|run| Some(run.best()?.0)).collect::<Vec<f64>>());
    html! {
        div.verdict {
            p.says { (counted(all, "run")) ", " (done) " completed." }
            @match (key, best) {
                (Some(key), Some((place, run, (value, epoch)))) if same => {
                    p.key {
                        span.value { (figure(value)) }
                        span.what { "best " (words(key)) ": " (name(place, run)) ", in epoch " (epoch)
                            span.aside { @if higher { " (higher is better)" } @else { " (lower is better)" } }
                        }
                    }
                    @if let Some((mean, deviation)) = spread(&values) {
                        p.aside { "Mean ± standard deviation of " (values.len()) " runs: " (figure(mean)) " ± " (figure(deviation)) }
                    }
                }
                _ => { p.key { span.what { "The runs have no key metric in common." } } }
            }
        }
    }
}

/// Mean and sample standard deviation.
fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let known: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    if known.len() < 2 {
        return None;
    }
    let mean = known.iter().sum::<f64>() / known.len() as f64;
    let squares: f64 = known.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, (squares / (known.len() - 1) as f64).sqrt()))
}

/// The table; `None` for a single run.
pub fn runs(view: &View<'_>) -> Option<Markup> {
    view.several().then(|| table(view))
}

fn table(view: &View<'_>) -> Markup {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    let heads =
        ["outcome", "best value", "in epoch", "epochs", "time", "device", "precision", "seed", "ranks", "cases"];
    html! {
        div.scroll tabindex="0" role="group" aria-label="Comparison of the runs" {
            table.sortable {
                caption { "One row for each run; the best value is that of its key metric" }
                thead {
                    tr {
                        th scope="col" data-col="0" { "run" }
                        @for (place, head) in heads.iter().enumerate() { th scope="col" data-col=(place + 1) { (head) } }
                    }
                }
                tbody {
                    @for (place, run) in view.each() {
                        @let summary = run.summary.clone().unwrap_or_default();
                        @let epochs = summary.epochs.or_else(|| run.epochs.last().map(|epoch| epoch.epoch));
                        @let best = run.best();
                        tr {
                            th scope="row" data-v=(run.name) { (name(place, run)) }
                            td { (badge(&outcome(run))) }
                            td.num data-v=[best.map(|(value, _)| value)] {
                                (or_none(best.map(|(value, _)| figure(value))))
                                @if let Some(key) = run.key_metric() { span.aside { " " (words(key)) } }
                            }
                            td.num data-v=[best.map(|(_, epoch)| epoch)] { (or_none(best.map(|(_, epoch)| epoch.to_string()))) }
                            td.num data-v=[epochs] {
                                (or_none(epochs.map(|epochs| epochs.to_string())))
                                @if let Some(asked) = run.max_epochs() { " of " (asked) }
                            }
                            td.num data-v=[summary.seconds] { (or_none(summary.seconds.map(duration)))
                                @if run.is_resumed() { span.aside { " since resumed" } } }
                            td { (or_none(summary.device)) }
                            td { (or_none(summary.precision)) }
                            td.num data-v=[summary.seed] { (or_none(summary.seed.map(|seed| seed.to_string()))) }
                            td.num data-v=[summary.ranks] { (or_none(summary.ranks.map(|ranks| ranks.to_string()))) }
                            td { (or_none(run.record.as_ref().map(|record| {
                                format!("{} train, {} validate", record.training.len(), record.validation.len())
                            }))) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `numpy.std([0.5, 0.8], ddof=1)` is 0.21213.
    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let (mean, deviation) = spread(&[0.5, f64::NAN, 0.8]).expect("two values");
        assert!((mean - 0.65).abs() < 1e-12 && (deviation - 0.212_132_034).abs() < 1e-8);
        assert!(spread(&[0.5]).is_none());
    }
}
