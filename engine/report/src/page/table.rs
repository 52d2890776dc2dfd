//! Elements that the tables of the page share.

use maud::{Markup, html};

use crate::text::figure;

/// A row of a table with bars.
pub struct Bar {
    /// The name of the measured part.
    pub name: Markup,
    /// Its value.
    pub value: f64,
    /// The value with its unit.
    pub shown: String,
    /// A further remark.
    pub note: String,
}

/// A table with bars, whose lengths are the values' shares of the largest one.
pub fn bars(caption: &str, heads: [&str; 3], rows: &[Bar]) -> Markup {
    let most = rows.iter().map(|row| row.value).filter(|value| value.is_finite()).fold(0.0, f64::max);
    let share = |value: f64| if most > 0.0 && value.is_finite() { (value / most * 100.0).max(0.0) } else { 0.0 };
    let noted = rows.iter().any(|row| !row.note.is_empty());
    html! {
        div.scroll {
            table.bars {
                caption { (caption) }
                thead {
                    tr {
                        th scope="col" { (heads[0]) }
                        th.num scope="col" { (heads[1]) }
                        td.bar aria-hidden="true" {}
                        @if noted { th.num scope="col" { (heads[2]) } }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            th scope="row" { (row.name) }
                            td.num { (row.shown) }
                            td.bar aria-hidden="true" { span style=(format!("width:{:.1}%", share(row.value))) {} }
                            @if noted { td.num { (row.note) } }
                        }
                    }
                }
            }
        }
    }
}

/// A cell with a number, which the script can sort by.
pub fn number(value: Option<f64>) -> Markup {
    match value.filter(|value| !value.is_nan()) {
        Some(value) => html! { td.num data-v=(value) { (figure(value)) } },
        None => html! { td.num.none { span aria-hidden="true" { "–" } span.hidden { "no value" } } },
    }
}

/// Names and values, one below the other.
pub fn facts(rows: &[(&str, Markup)]) -> Markup {
    html! {
        dl.facts { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } }
    }
}
