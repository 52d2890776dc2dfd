//! The machine of each run, as far as its files say.

use maud::{Markup, html};

use super::View;
use super::table::facts;
use crate::run::Machine;
use crate::svg::{LineChart, Series};
use crate::text::{slug, words};

/// The facts and curves; `None` where no run has them.
pub fn show(view: &View<'_>) -> Option<Markup> {
    view.per_run(|place, run| run.machine.as_ref().map(|machine| of_run(place, machine)))
}

fn of_run(place: usize, machine: &Machine) -> Markup {
    let rows: Vec<(&str, Markup)> =
        machine.facts.iter().map(|(name, value)| (name.as_str(), html! { (value) })).collect();
    let charts = machine.columns.iter().map(|column| LineChart {
        id: format!("machine-{place}-{}", slug(&column.name)),
        title: words(&column.name),
        x: words(&machine.axis),
        series: vec![Series { name: words(&column.name), run: place, points: column.points.clone(), faint: false }],
        marks: Vec::new(),
        may_be_log: false,
    });
    html! {
        @if !rows.is_empty() { (facts(&rows)) }
        div.charts { @for chart in charts { figure { figcaption { h3 { (chart.title) } } (chart.draw()) } } }
    }
}
