//! The machine of each run, and how the run used it, from its files.

use maud::{Markup, html};

use super::View;
use super::table::{Bar, bars, facts};
use crate::run::{Machine, energy};
use crate::svg::{LineChart, Series};
use crate::text::{duration, slug, words};

/// The facts and curves; `None` if no run has them.
pub fn show(view: &View<'_>) -> Option<Markup> {
    view.per_run(|place, run| run.machine.as_ref().map(|machine| of_run(place, machine)))
}

fn of_run(place: usize, machine: &Machine) -> Markup {
    let rows: Vec<(&str, Markup)> =
        machine.facts.iter().map(|(name, value)| (name.as_str(), html! { (value) })).collect();
    let phases: Vec<Bar> = machine
        .phases
        .iter()
        .map(|phase| Bar {
            name: html! { (words(&phase.name)) },
            value: phase.seconds,
            shown: duration(phase.seconds),
            note: phase.joules.map(energy).unwrap_or_default(),
        })
        .collect();
    let charts = machine.columns.iter().enumerate().map(|(number, column)| LineChart {
        id: format!("machine-{place}-{number}-{}", slug(&column.name)),
        title: column.name.clone(),
        x: "seconds".into(),
        series: vec![Series { name: column.name.clone(), run: place, points: column.points.clone(), faint: false }],
        marks: Vec::new(),
        may_be_log: false,
    });
    html! {
        @if !rows.is_empty() { (facts(&rows)) }
        @if !phases.is_empty() { div.columns { (bars("Phases of the run", ["phase", "time", "energy"], &phases)) } }
        div.charts { @for chart in charts { figure { figcaption { h3 { (chart.title) } } (chart.draw()) } } }
    }
}
