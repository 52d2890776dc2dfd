//! Pages of running trainings: of one run, of many by rank, and of a folder without a run yet. The
//! program that serves them makes a new version when files change, and their script requests it.

use maud::{Markup, html};

use super::table::facts;
use super::verdict::{badge, outcome};
use super::{Frame, View, curves, document, machine, name, section, warnings};
use crate::board::{Board, Row};
use crate::run::{Latest, Progress, Run};
use crate::text::{NONE, counted, duration, figure, words};

/// The script that updates the page, after the script of all pages.
const LIVE: &str = concat!(include_str!("script.js"), include_str!("live.js"));

/// The page may only send requests to the program that served it.
const POLICY: &str = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The maximum number of runs whose curves are on the page of a folder.
const CURVES: usize = 7;

/// The page of a run. `version` identifies its content, for the script.
pub fn run(run: &Run, version: &str) -> String {
    let progress = Progress::of(run);
    let runs = std::slice::from_ref(run);
    let heading = run.title();
    let view = View { runs, title: &heading, pictures: &[], volumes: &[], left_out: &[], remarks: &[] };
    let sections = [
        section("metrics", "Metrics", (!progress.metrics.is_empty()).then(|| metrics(&progress.metrics))),
        section("curves", "Curves", curves::show(&view)),
        section("warnings", "Warnings", warnings::show(&view)),
        section("machine", "Machine", machine::show(&view)),
    ];
    let header = html! { h1 { (heading) } (head(run, &progress)) };
    let title = format!("{}: {} – Hearth", run.state.word(), run.name);
    page(title, header, sections.into_iter().flatten().collect(), &run.folder.display().to_string(), version)
}

/// The page of a folder of runs, ordered by rank.
pub fn board(folder: &str, board: &Board<'_>, version: &str) -> String {
    let runs: Vec<Run> = board.rows.iter().map(|row| row.run.clone()).collect();
    let best = &runs[..runs.len().min(CURVES)];
    let view = View { runs: best, title: folder, pictures: &[], volumes: &[], left_out: &[], remarks: &[] };
    let heading = if runs.len() > CURVES { "Curves of the first seven" } else { "Curves" };
    let sections = [section("runs", "Runs", Some(table(board))), section("curves", heading, curves::show(&view))];
    let counts = board.counts().into_iter().map(|(state, count)| format!("{count} {state}")).collect::<Vec<_>>();
    let header = html! {
        h1 { (folder) }
        div.verdict {
            p.says id="state" { (counted(runs.len(), "run")) ": " (counts.join(", ")) "." }
            @if let (Some(key), Some(row)) = (&board.key, board.rows.first()) {
                @if let Some(value) = row.value {
                    p.key {
                        span.value { (figure(value)) }
                        span.what { "best " (words(key)) ": " (name(0, row.run))
                            span.aside { @if board.higher { " (higher is better)" } @else { " (lower is better)" } } }
                    }
                }
            }
        }
    };
    let title = format!("{} – Hearth", folder);
    page(title, header, sections.into_iter().flatten().collect(), folder, version)
}

/// The page of a folder that is not yet, or no longer, a run.
pub fn note(folder: &str, text: &str, version: &str) -> String {
    let header = html! { h1 { (folder) } div.verdict { p.says id="state" { (text) } } };
    page(format!("{folder} – Hearth"), header, Vec::new(), folder, version)
}

fn page(title: String, header: Markup, sections: Vec<super::Section>, folder: &str, version: &str) -> String {
    let footer = html! {
        p { "hearth watch " (env!("CARGO_PKG_VERSION")) " reads " code { (folder) }
            " and shows it here, on this machine alone. To keep a page or to send it: hearth report." }
        p.badge.bad id="lost" hidden { "The program that served this page has ended; this is what it showed last." }
        p.hidden role="status" id="live" {}
    };
    let version = Some(version);
    document(Frame { title, policy: POLICY, header, sections, footer, version, script: LIVE })
}

fn head(run: &Run, progress: &Progress) -> Markup {
    let outcome = outcome(run);
    let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    let mut rows = vec![("Run", html! { (run.name) })];
    let epochs = html! { (progress.epoch()) @if let Some(of) = progress.of { " of " (of) } };
    rows.push(("Epoch", epochs));
    rows.push(("Step", html! { (progress.iteration) }));
    rows.push(("Loss", html! { (or_none(progress.loss.map(|(loss, _)| figure(loss)))) }));
    rows.push(("Learning rate", html! { (or_none(progress.learning_rate.map(figure))) }));
    rows.push(("Time of an epoch", html! { (or_none(progress.seconds_per_epoch.map(duration))) }));
    if run.state.is_running() {
        rows.push(("Time left", html! { (or_none(progress.left.map(duration))) }));
    } else if let Some(seconds) = run.summary.as_ref().and_then(|summary| summary.seconds) {
        rows.push(("Time", html! { (duration(seconds)) }));
    }
    let (word, sign, class) = (outcome.word, outcome.sign, outcome.class);
    html! {
        div.verdict {
            p.says id="state" { (badge(&super::verdict::Outcome { word, class, sign, meaning: String::new() })) " " (outcome.meaning) }
            @if let Some(done) = progress.done() {
                p { progress max="100" value=(format!("{:.1}", done * 100.0)) aria-label="Part of the run that is done" {} " " (format!("{:.0}", done * 100.0)) " %" }
            }
            @if let (Some(key), Some((best, epoch))) = (run.key_metric(), run.best()) {
                p.key { span.value { (figure(best)) } span.what { "best " (words(key)) ", in epoch " (epoch) } }
            }
            (facts(&rows))
        }
    }
}

fn metrics(metrics: &[Latest]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Metrics" {
            table {
                caption { "The newest value of each metric" }
                thead { tr { th scope="col" { "metric" } th.num scope="col" { "value" } th.num scope="col" { "in epoch" }
                    th.num scope="col" { "best" } th.num scope="col" { "in epoch" } } }
                tbody {
                    @for metric in metrics {
                        tr {
                            th scope="row" { (words(&metric.name)) }
                            td.num { (figure(metric.value)) }
                            td.num { (metric.epoch) }
                            td.num { (metric.best.map_or(String::new(), |(value, _)| figure(value))) }
                            td.num { (metric.best.map_or(String::new(), |(_, epoch)| epoch.to_string())) }
                        }
                    }
                }
            }
        }
    }
}

fn table(board: &Board<'_>) -> Markup {
    let key = board.key.as_deref().map_or("key metric".to_owned(), words);
    let heads = ["run", "state", "epoch", &key, "in epoch", "loss", "time left"];
    html! {
        div.scroll tabindex="0" role="group" aria-label="Runs by rank" {
            table.sortable {
                caption { "By " (key) @if board.higher { ", the highest first" } @else { ", the lowest first" } }
                thead { tr {
                    th.num scope="col" data-col="0" { "rank" }
                    @for (place, head) in heads.iter().enumerate() { th.num[place > 2] scope="col" data-col=(place + 1) { (head) } }
                } }
                tbody { @for (place, row) in board.rows.iter().enumerate() { (of_row(place, row)) } }
            }
        }
    }
}

fn of_row(place: usize, row: &Row<'_>) -> Markup {
    let Row { run, progress, .. } = row;
    let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    html! {
        tr {
            td.num data-v=[row.rank] { (or_none(row.rank.map(|rank| rank.to_string()))) }
            th scope="row" data-v=(run.name) { @if place < CURVES { (name(place, run)) } @else { (run.name) } }
            td data-v=(run.state.word()) { (badge(&outcome(run))) }
            td data-v=(progress.epoch()) { (progress.epoch()) @if let Some(of) = progress.of { " of " (of) } }
            td.num data-v=[row.value] { (or_none(row.value.map(figure))) }
            td.num data-v=[row.epoch] { (or_none(row.epoch.map(|epoch| epoch.to_string()))) }
            td.num data-v=[progress.loss.map(|(loss, _)| loss)] { (or_none(progress.loss.map(|(loss, _)| figure(loss)))) }
            td.num data-v=[progress.left] { (or_none(progress.left.map(duration))) }
        }
    }
}
