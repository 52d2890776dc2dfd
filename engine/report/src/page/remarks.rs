//! Remarks on predictions: in what their images are unlike those of the training, failures, warnings.

use maud::{Markup, html};

use super::{View, name};

/// The number of remarks that are shown.
const SHOWN: usize = 400;

/// The table; `None` without remarks.
pub fn show(view: &View<'_>) -> Option<Markup> {
    let (shown, all) = (&view.remarks[..view.remarks.len().min(SHOWN)], view.remarks.len());
    if shown.is_empty() {
        return None;
    }
    let several = view.several();
    Some(html! {
        div.scroll.tall tabindex="0" role="group" aria-label="Remarks on predictions" {
            table.sortable {
                caption {
                    "Images unlike those of the training, failed cases and warnings"
                    @if shown.len() < all { "; the first " (shown.len()) " of " (all) }
                }
                thead {
                    tr {
                        th scope="col" data-col="0" { "case" }
                        th scope="col" data-col="1" { "remark" }
                        @if several { th scope="col" data-col="2" { "run" } }
                    }
                }
                tbody {
                    @for remark in shown {
                        tr {
                            th scope="row" { @match &remark.case { Some(case) => (case), None => "all" } }
                            td data-v=(remark.text) { (remark.text) }
                            @if several {
                                td data-v=(view.runs[remark.run].name) { (name(remark.run, &view.runs[remark.run])) }
                            }
                        }
                    }
                }
            }
        }
    })
}
