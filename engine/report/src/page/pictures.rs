//! Pictures of cases, in the order of the table: the worst first.

use maud::{Markup, html};

use super::cases::is_of;
use super::{View, name};
use crate::run::CaseRow;
use crate::text::{counted, figure, words};

/// The number of pictures above which the rest is collapsed.
const SHOWN: usize = 6;

/// The pictures; `None` if there are none.
pub fn show(view: &View<'_>) -> Option<Markup> {
    if view.pictures.is_empty() {
        return None;
    }
    let mut order: Vec<usize> = (0..view.pictures.len()).collect();
    order.sort_by_key(|place| {
        let picture = &view.pictures[*place];
        let cases = view.runs.get(picture.run).and_then(|run| run.cases.as_ref());
        let rank = cases.and_then(|cases| cases.worst_first().iter().position(|row| is_of(&picture.case, &row.case)));
        (rank.unwrap_or(usize::MAX), picture.run, *place)
    });
    let (first, more) = order.split_at(order.len().min(SHOWN));
    Some(html! {
        div.pictures { @for place in first { (one(view, *place)) } }
        @if !more.is_empty() {
            details {
                summary { (counted(more.len(), "further picture")) }
                div.pictures { @for place in more { (one(view, *place)) } }
            }
        }
    })
}

fn one(view: &View<'_>, place: usize) -> Markup {
    let picture = &view.pictures[place];
    let run = &view.runs[picture.run];
    let rows = run.cases.as_ref().map(|cases| &cases.rows[..]).unwrap_or_default();
    let value = rows.iter().find(|row| is_of(&picture.case, &row.case)).and_then(CaseRow::key);
    let [width, height] = picture.size;
    html! {
        figure id=(format!("picture-{place}")) {
            img src=(picture.source) alt=(format!("{}: {}", picture.case, picture.caption)) width=(width) height=(height);
            figcaption {
                strong { (picture.case) }
                @if let Some(value) = value { " " (run.key_metric().map(words).unwrap_or_default()) " " (figure(value)) }
                @if view.several() { " " (name(picture.run, run)) }
                span.aside { " " (picture.caption) }
            }
        }
    }
}
