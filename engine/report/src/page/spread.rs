//! The distribution of a metric over the cases: by class for one run, by run for several.

use maud::{Markup, html};

use super::View;
use crate::run::{CaseRow, Cases};
use crate::svg::{Dot, Strip, StripRow};
use crate::text::{slug, words};

/// The number of dots in a row above which only every second, third, ... case is shown, so that dots do
/// not hide each other.
const DOTS: usize = 400;

/// The maximum number of metrics that are drawn; the table has the others.
const METRICS: usize = 6;

/// The drawings; `None` if no run has measured cases.
pub fn show(view: &View<'_>) -> Option<Markup> {
    let strips: Vec<Strip> = if view.several() { by_run(view) } else { by_class(view.runs.first()?.cases.as_ref()?) };
    let strips: Vec<Strip> =
        strips.into_iter().filter(|strip| strip.rows.iter().any(|row| !row.dots.is_empty())).collect();
    if strips.is_empty() {
        return None;
    }
    Some(html! {
        p.aside { "Each mark is a case; a box spans the quartiles, with a line at the median." }
        div.charts {
            @for strip in &strips { figure { figcaption { h3 { (strip.title) } } (strip.draw()) } }
        }
    })
}

fn row(name: String, run: usize, cases: &[CaseRow], value: impl Fn(&CaseRow) -> Option<f64>) -> StripRow {
    let dots: Vec<Dot> =
        cases.iter().filter_map(|row| Some(Dot { case: row.case.clone(), value: value(row)? })).collect();
    let every = dots.len().div_ceil(DOTS).max(1);
    StripRow { name, run, dots: dots.into_iter().step_by(every).collect() }
}

fn by_class(cases: &Cases) -> Vec<Strip> {
    let strip = |(index, metric): (usize, &crate::run::CaseMetric)| {
        let each = metric.classes.iter().enumerate().map(|(class, (name, _))| {
            row(name.clone(), 0, &cases.rows, |row| row.classes.get(index)?.get(class).copied().flatten())
        });
        let mut rows: Vec<StripRow> = each.collect();
        if rows.len() != 1 {
            rows.insert(
                0,
                row("mean of the case".into(), 0, &cases.rows, |row| row.values.get(index).copied().flatten()),
            );
        }
        of_metric(index, &metric.name, rows)
    };
    cases.metrics.iter().take(METRICS).enumerate().map(strip).collect()
}

fn by_run(view: &View<'_>) -> Vec<Strip> {
    let mut names: Vec<&str> = Vec::new();
    for metric in view.runs.iter().filter_map(|run| run.cases.as_ref()).flat_map(|cases| &cases.metrics) {
        if !names.contains(&metric.name.as_str()) {
            names.push(&metric.name);
        }
    }
    let strip = |(place, name): (usize, &&str)| {
        let rows = view.each().filter_map(|(place, run)| {
            let cases = run.cases.as_ref()?;
            let index = cases.metrics.iter().position(|metric| metric.name == **name)?;
            Some(row(run.name.clone(), place, &cases.rows, |row| row.values.get(index).copied().flatten()))
        });
        of_metric(place, name, rows.collect())
    };
    names.iter().take(METRICS).enumerate().map(strip).collect()
}

fn of_metric(place: usize, name: &str, rows: Vec<StripRow>) -> Strip {
    Strip {
        id: format!("strip-{place}-{}", slug(name)),
        title: format!("{} of the cases", words(name)),
        x: words(name),
        rows,
    }
}
