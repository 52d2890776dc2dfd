//! The measured cases of each run, the worst first; for several runs also side by side.

use maud::{Markup, html};

use super::table::number;
use super::{View, name};
use crate::run::{CaseMetric, CaseRow, Cases, Run};
use crate::text::{counted, figure, words};

/// The maximum number of rows on the page, because regions of slides can be very many; the file has all
/// rows.
const ROWS: usize = 400;

/// The tables; `None` if no run has measured cases.
pub fn show(view: &View<'_>) -> Option<Markup> {
    let each = view.per_run(|place, run| run.cases.as_ref().map(|cases| table(view, place, run, cases)))?;
    let together = side_by_side(view).or_else(|| pooled(view));
    Some(html! {
        @if let Some(together) = together {
            (together)
            details { summary { "All metrics and classes, run by run" } (each) }
        } @else {
            (each)
        }
    })
}

/// The note above a table.
fn about(cases: &Cases) -> Markup {
    html! {
        p.aside {
            @if let Some(measured) = &cases.measured { (measured) "; " }
            @if let Some(checkpoint) = &cases.checkpoint { "checkpoint " code { (checkpoint) } "; " }
            @if let Some(grid) = &cases.grid { "on the " @if grid == "network" { "network's grid" } @else { "images' own grids" } "; " }
            "from " code { (cases.source.display().to_string()) }
        }
    }
}

/// Whether a metric has values for each class. With only one class, its value is the metric's own,
/// without another column.
fn has_classes(metric: &CaseMetric) -> bool {
    metric.classes.len() > 1
}

fn table(view: &View<'_>, place: usize, run: &Run, cases: &Cases) -> Markup {
    let rows = cases.worst_first();
    let shown = &rows[..rows.len().min(ROWS)];
    let two = cases.metrics.iter().any(has_classes);
    let better = |metric: &CaseMetric| if metric.higher_is_better { "higher is better" } else { "lower is better" };
    let width = |metric: &CaseMetric| if has_classes(metric) { metric.classes.len() + 1 } else { 1 };
    let first = |index: usize| 1 + cases.metrics[..index].iter().map(width).sum::<usize>();
    let only = |metric: &CaseMetric| metric.classes.first().map(|(class, _)| class.clone());
    html! {
        (about(cases))
        div.scroll.tall tabindex="0" role="group" aria-label=(format!("Cases of {}", run.name)) {
            table.sortable.cases {
                caption {
                    (counted(rows.len(), "case")) " of " (run.name)
                    @if let Some(key) = cases.key() { ", the worst " (words(&key.name)) " first" }
                    @if shown.len() < rows.len() { "; the " (shown.len()) " worst are shown, the file has all" }
                }
                thead {
                    tr {
                        th scope="col" rowspan=[two.then_some(2)] data-col="0" { "case" }
                        @for (index, metric) in cases.metrics.iter().enumerate() {
                            @if has_classes(metric) {
                                th.group scope="colgroup" colspan=(width(metric)) {
                                    (words(&metric.name)) span.aside { " " (better(metric)) }
                                }
                            } @else {
                                th.num scope="col" rowspan=[two.then_some(2)] data-col=(first(index)) {
                                    (words(&metric.name))
                                    @if let Some(class) = only(metric) { span.aside { " " (class) } }
                                    span.aside { " " (better(metric)) }
                                }
                            }
                        }
                    }
                    @if two {
                        tr {
                            @for (index, metric) in cases.metrics.iter().enumerate().filter(|(_, metric)| has_classes(metric)) {
                                th.num scope="col" data-col=(first(index)) { "mean" }
                                @for (number, (class, _)) in metric.classes.iter().enumerate() {
                                    th.num scope="col" data-col=(first(index) + 1 + number) { (class) }
                                }
                            }
                        }
                    }
                }
                tbody { @for row in shown { (line(view, place, cases, row)) } }
                tfoot {
                    tr {
                        th scope="row" { "all cases" }
                        @for metric in &cases.metrics {
                            (number(metric.value))
                            @if has_classes(metric) { @for (_, mean) in &metric.classes { (number(*mean)) } }
                        }
                    }
                }
            }
        }
        (remarks(cases))
    }
}

fn line(view: &View<'_>, place: usize, cases: &Cases, row: &CaseRow) -> Markup {
    let picture = view.pictures.iter().position(|picture| picture.run == place && is_of(&picture.case, &row.case));
    html! {
        tr {
            th scope="row" {
                @if let Some(picture) = picture { a href=(format!("#picture-{picture}")) { (row.case) } } @else { (row.case) }
            }
            @for (index, metric) in cases.metrics.iter().enumerate() {
                @let value = row.values.get(index).copied().flatten();
                @if index == 0 { (with_bar(value)) } @else { (number(value)) }
                @if has_classes(metric) { @for value in row.classes.get(index).into_iter().flatten() { (number(*value)) } }
            }
        }
    }
}

/// The key metric with a bar behind it if it is a share.
fn with_bar(value: Option<f64>) -> Markup {
    match value.filter(|value| (0.0..=1.0).contains(value)) {
        Some(value) => html! {
            td.num.share data-v=(value) style=(format!("--v:{:.1}%", value * 100.0)) { (figure(value)) }
        },
        None => number(value),
    }
}

/// Whether a picture belongs to a case: by the case's name, or by its file's name.
pub fn is_of(picture: &str, case: &str) -> bool {
    let last = |name: &str| name.rsplit(['/', '\\']).next().unwrap_or(name).to_owned();
    let bare = |name: &str| {
        let name = last(name);
        let ends = [".nii.gz", ".nii", ".mgz", ".mgh", ".dcm", ".png", ".tif", ".tiff", ".svs"];
        ends.iter().find_map(|end| name.strip_suffix(end).map(str::to_owned)).unwrap_or(name)
    };
    picture == case || bare(picture) == bare(case)
}

/// The numbers of cases that are excluded, or that count the diagonal.
fn remarks(cases: &Cases) -> Markup {
    let all = cases.rows.len();
    let of = |metric: &CaseMetric| {
        let classes = metric.classes.iter().enumerate().flat_map(|(place, (class, _))| {
            let (left, diagonal) = (metric.left_out.get(place).copied(), metric.penalised.get(place).copied());
            let name = words(&metric.name);
            let left = left.filter(|count| *count > 0).map(|count| {
                format!("{name}: {count} of {all} cases have no value for {class} and are excluded from its mean.")
            });
            let diagonal = diagonal.filter(|count| *count > 0).map(|count| {
                format!(
                    "{name}: {count} of {all} cases miss {class} or find it where it is not, and count the diagonal."
                )
            });
            [left, diagonal]
        });
        classes.flatten().collect::<Vec<_>>()
    };
    let remarks: Vec<String> = cases.metrics.iter().flat_map(of).collect();
    html! { @if !remarks.is_empty() { ul.aside { @for remark in remarks { li { (remark) } } } } }
}

/// A run with its index and its cases.
type Measured<'a> = (usize, &'a Run, &'a Cases);

/// The runs with cases, and the key metric if all runs have the same one.
fn measured_alike<'a>(view: &'a View<'_>) -> Option<(&'a CaseMetric, Vec<Measured<'a>>)> {
    let measured: Vec<Measured<'_>> =
        view.each().filter_map(|(place, run)| Some((place, run, run.cases.as_ref()?))).collect();
    let key = measured.first()?.2.key()?;
    let same = measured.iter().all(|(_, _, cases)| cases.key().is_some_and(|other| other.name == key.name));
    (same && measured.len() > 1).then_some((key, measured))
}

/// The cases of runs that measured different ones, such as the folds of a cross-validation.
fn pooled(view: &View<'_>) -> Option<Markup> {
    let (key, measured) = measured_alike(view)?;
    let of = |(place, run, cases): &Measured<'_>| {
        let (place, run) = (*place, run.name.clone());
        cases.rows.iter().map(move |row| (row.case.clone(), place, run.clone(), row.key())).collect::<Vec<_>>()
    };
    let mut rows: Vec<(String, usize, String, Option<f64>)> = measured.iter().flat_map(of).collect();
    let sign = if key.higher_is_better { 1.0 } else { -1.0 };
    let rank = |value: Option<f64>| value.map_or(f64::INFINITY, |value| sign * value);
    rows.sort_by(|a, b| rank(a.3).total_cmp(&rank(b.3)));
    let all = rows.len();
    rows.truncate(ROWS);
    Some(html! {
        div.scroll.tall tabindex="0" role="group" aria-label="Cases of all runs" {
            table.sortable.cases {
                caption {
                    (counted(all, "case")) " of " (counted(measured.len(), "run")) ", the worst " (words(&key.name)) " first"
                    @if rows.len() < all { "; the " (rows.len()) " worst are shown" }
                }
                thead {
                    tr {
                        th scope="col" data-col="0" { "case" }
                        th.num scope="col" data-col="1" { (words(&key.name)) }
                        th scope="col" data-col="2" { "run" }
                    }
                }
                tbody {
                    @for (case, place, run, value) in &rows {
                        tr {
                            th scope="row" { (case) }
                            (with_bar(*value))
                            td data-v=(run) { (name(*place, &view.runs[*place])) }
                        }
                    }
                }
            }
        }
    })
}

/// The key metric of the cases that several runs measured; `None` if they have none in common.
fn side_by_side(view: &View<'_>) -> Option<Markup> {
    let (key, measured) = measured_alike(view)?;
    let value = |cases: &Cases, case: &str| cases.rows.iter().find(|row| row.case == case).and_then(CaseRow::key);
    let (_, _, first) = measured.first()?;
    let common = |row: &&&CaseRow| measured.iter().all(|(_, _, cases)| cases.rows.iter().any(|r| r.case == row.case));
    let rows = first.worst_first();
    let mut rows: Vec<(&str, Vec<Option<f64>>)> = rows
        .iter()
        .filter(common)
        .take(ROWS)
        .map(|row| (row.case.as_str(), measured.iter().map(|(_, _, cases)| value(cases, &row.case)).collect()))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let mean = |values: &[Option<f64>]| {
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        known.iter().sum::<f64>() / known.len() as f64
    };
    rows.sort_by(|a, b| {
        let (a, b) = (mean(&a.1), mean(&b.1));
        if key.higher_is_better { a.total_cmp(&b) } else { b.total_cmp(&a) }
    });
    Some(html! {
        div.scroll.tall tabindex="0" role="group" aria-label="Cases of all runs" {
            table.sortable.cases {
                caption { (words(&key.name)) " of " (counted(rows.len(), "case")) " that all runs measured, the worst first" }
                thead {
                    tr {
                        th scope="col" data-col="0" { "case" }
                        @for (number, (place, run, _)) in measured.iter().enumerate() {
                            th.num scope="col" data-col=(number + 1) { (name(*place, run)) }
                        }
                    }
                }
                tbody {
                    @for (case, values) in &rows {
                        tr { th scope="row" { (case) } @for value in values { (with_bar(*value)) } }
                    }
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::is_of;

    #[test]
    fn pictures_are_found_by_the_case_or_its_file() {
        assert!(is_of("spleen_1", "spleen_1") && is_of("a/b/spleen_1", "spleen_1.nii.gz"));
        assert!(!is_of("spleen_1", "spleen_10"));
    }
}
