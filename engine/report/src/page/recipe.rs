//! The recipes: differences between runs, changes to a bundled recipe, and the whole text.

use maud::{Markup, html};

use super::{View, name};
use crate::diff;
use crate::run::Run;
use crate::text::{NONE, counted};

/// The number of keys above which the rest is collapsed.
const SHOWN: usize = 24;

/// The recipes of all runs.
pub fn show(view: &View<'_>) -> Option<Markup> {
    let each = view.per_run(|_, run| Some(of_run(run)))?;
    Some(html! {
        @if view.several() { (differences(view)) }
        (each)
    })
}

fn of_run(run: &Run) -> Markup {
    let started = run.record.as_ref().and_then(|record| record.recipe.as_deref());
    let since = started.and_then(|started| diff::lines(started, &run.recipe));
    html! {
        @match &run.bundled {
            Some((bundled, text)) => {
                @match diff::lines(text, &run.recipe) {
                    Some(lines) => {
                        h3 { "Changes in the bundled recipe " code { (bundled) } }
                        p.aside { "Lines with − are those of the bundled recipe, lines with + those of this run; both with every default." }
                        (lines)
                    }
                    None => { p { "It is the bundled recipe " code { (bundled) } ", unchanged." } }
                }
            }
            None => {}
        }
        @if let Some(lines) = since {
            h3 { "Changes since the run was started" }
            (lines)
        }
        details {
            summary { "The whole recipe, with every default" }
            pre tabindex="0" { code { (run.recipe) } }
        }
    }
}

/// The keys whose values are not the same in all runs.
fn differences(view: &View<'_>) -> Markup {
    let recipes: Vec<&str> = view.runs.iter().map(|run| run.recipe.as_str()).collect();
    let rows = diff::keys(&recipes);
    if rows.is_empty() {
        return html! { p { "The recipes of all runs are the same." } };
    }
    let table = table(view, &rows);
    html! {
        @if rows.len() > SHOWN {
            details { summary { (counted(rows.len(), "key")) " with different values" } (table) }
        } @else {
            (table)
        }
    }
}

fn table(view: &View<'_>, rows: &[diff::Difference]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Differences of the recipes" {
            table {
                caption { (counted(rows.len(), "key")) " of the recipes with different values" }
                thead {
                    tr {
                        th scope="col" { "key" }
                        @for (place, run) in view.each() { th scope="col" { (name(place, run)) } }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            th scope="row" { code { (row.key) } }
                            @for value in &row.values { td { code.value { (value.as_deref().unwrap_or(NONE)) } } }
                        }
                    }
                }
            }
        }
    }
}
