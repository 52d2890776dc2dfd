//! Confusion matrices of classes.

use maud::{Markup, html};

use super::View;
use crate::run::Confusion;
use crate::text::counted;

/// The matrices; `None` if no run has one.
pub fn show(view: &View<'_>) -> Option<Markup> {
    view.per_run(|_, run| run.confusion.as_ref().map(|confusion| matrix(&run.name, confusion)))
}

fn matrix(run: &str, confusion: &Confusion) -> Markup {
    let Confusion { labels, counts, unknown, unit } = confusion;
    let (all, right): (u64, u64) =
        (counts.iter().flatten().sum(), (0..labels.len()).map(|class| counts[class][class]).sum());
    let share = |count: u64, row: &[u64]| match row.iter().sum::<u64>() {
        0 => 0.0,
        sum => count as f64 / sum as f64 * 100.0,
    };
    html! {
        div.scroll tabindex="0" role="group" aria-label=(format!("Confusion of {run}")) {
            table.confusion {
                caption { (grouped(right)) " of " (grouped(all)) " " (unit) " are right. Rows are the true classes; shares are of a row" }
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
                                    (grouped(*count)) span.aside { " " (percent(share(*count, row))) " %" }
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

/// A share in percent, with enough digits to show rare errors of voxels.
fn percent(share: f64) -> String {
    match share {
        share if share > 0.0 && share < 0.1 => "< 0.1".to_owned(),
        share if share < 10.0 || (share > 99.0 && share < 100.0) => format!("{share:.1}"),
        share => format!("{share:.0}"),
    }
}

/// A count in groups of three digits.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join("\u{202f}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_groups_and_small_shares_do_not_vanish() {
        assert_eq!([7, 999, 1_000, 78_643_201].map(grouped), ["7", "999", "1\u{202f}000", "78\u{202f}643\u{202f}201"]);
        assert_eq!([0.0, 0.02, 0.5, 37.4, 99.94, 100.0].map(percent), ["0.0", "< 0.1", "0.5", "37", "99.9", "100"]);
    }
}
