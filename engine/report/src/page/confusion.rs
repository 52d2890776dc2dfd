//! Which classes were taken for which.

use maud::{Markup, html};

use super::View;
use crate::run::Confusion;
use crate::text::counted;

/// The matrices; `None` where no run has one.
pub fn show(view: &View<'_>) -> Option<Markup> {
    view.per_run(|_, run| run.confusion.as_ref().map(|confusion| matrix(&run.name, confusion)))
}

fn matrix(run: &str, confusion: &Confusion) -> Markup {
    let Confusion { labels, counts, unknown } = confusion;
    let (all, right): (u64, u64) =
        (counts.iter().flatten().sum(), (0..labels.len()).map(|class| counts[class][class]).sum());
    let share = |count: u64, row: &[u64]| match row.iter().sum::<u64>() {
        0 => 0.0,
        sum => count as f64 / sum as f64 * 100.0,
    };
    html! {
        div.scroll tabindex="0" role="group" aria-label=(format!("Confusion of {run}")) {
            table.confusion {
                caption { (right) " of " (all) " images are right. Rows are the true classes; shares are of a row" }
                thead {
                    tr { th scope="col" rowspan="2" { "true class" } th.group scope="colgroup" colspan=(labels.len()) { "predicted class" } }
                    tr { @for label in labels { th.num scope="col" { (label) } } }
                }
                tbody {
                    @for (truth, row) in counts.iter().enumerate() {
                        tr {
                            th scope="row" { (labels[truth]) }
                            @for (predicted, count) in row.iter().enumerate() {
                                td.num.share.right[truth == predicted] style=(format!("--v:{:.1}%", share(*count, row))) {
                                    (count) span.aside { " " (format!("{:.0}", share(*count, row))) " %" }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if *unknown > 0 { p.aside { (counted(*unknown, "image")) " without a known class not counted." } }
    }
}
