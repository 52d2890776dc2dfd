//! Versions, device, data, and the usable checkpoints.

use maud::{Markup, html};

use super::View;
use super::table::{facts, number};
use crate::run::Run;
use crate::text::{NONE, bytes, counted};

/// The number of names above which the rest is collapsed.
const NAMES: usize = 12;

/// The facts of all runs.
pub fn show(view: &View<'_>) -> Option<Markup> {
    view.per_run(|_, run| Some(of_run(run)))
}

fn of_run(run: &Run) -> Markup {
    let summary = run.summary.clone().unwrap_or_default();
    let or_none = |text: Option<String>| html! { (text.unwrap_or_else(|| NONE.to_owned())) };
    let mut rows = vec![
        ("Folder", html! { code { (run.folder.display().to_string()) } }),
        ("Written by", or_none(summary.version.map(|version| format!("hearth {version}")))),
        ("Device", or_none(summary.device)),
        ("Precision", or_none(summary.precision)),
        ("Seed", or_none(summary.seed.map(|seed| seed.to_string()))),
        ("Ranks", or_none(summary.ranks.map(|ranks| ranks.to_string()))),
    ];
    if let Some(record) = &run.record {
        rows.push(("Data", html! { code { (record.data.as_deref().unwrap_or(NONE)) } }));
    }
    html! {
        (facts(&rows))
        @if let Some(record) = &run.record {
            (names("Cases it trains on", &record.training))
            (names("Cases it validates on", &record.validation))
        }
        @if !run.checkpoints.is_empty() { (checkpoints(run)) }
    }
}

fn names(title: &str, names: &[String]) -> Markup {
    html! {
        @if !names.is_empty() {
            details open[names.len() <= NAMES] {
                summary { (title) ": " (names.len()) }
                p.names { @for (place, name) in names.iter().enumerate() { @if place > 0 { ", " } (name) } }
            }
        }
    }
}

fn checkpoints(run: &Run) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Checkpoints" {
            table.sortable {
                caption { (counted(run.checkpoints.len(), "checkpoint")) " of " (run.name) }
                thead {
                    tr {
                        th scope="col" data-col="0" { "folder" }
                        th scope="col" data-col="1" { "why" }
                        th.num scope="col" data-col="2" { "epoch" }
                        th.num scope="col" data-col="3" { "steps" }
                        th.num scope="col" data-col="4" { "key metric" }
                        th.num scope="col" data-col="5" { "size" }
                    }
                }
                tbody {
                    @for one in &run.checkpoints {
                        tr {
                            th scope="row" { code { (one.name) } }
                            td { (one.tag) @if let Some(fault) = one.fault { " (" (fault) ")" } }
                            td.num data-v=(one.epoch) { (one.epoch) }
                            td.num data-v=(one.iteration) { (one.iteration) }
                            (number(one.value))
                            td.num data-v=[one.bytes] { (one.bytes.map_or_else(|| NONE.to_owned(), bytes)) }
                        }
                    }
                }
            }
        }
    }
}
