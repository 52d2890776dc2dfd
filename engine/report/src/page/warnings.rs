//! The warnings of a run, the newest first.

use maud::{Markup, html};

use super::View;
use crate::run::Warning;
use crate::text::counted;

/// The number of warnings that are shown.
const SHOWN: usize = 30;

/// The lists; `None` if no run has warnings.
pub fn show(view: &View<'_>) -> Option<Markup> {
    view.per_run(|_, run| (!run.warnings.is_empty()).then(|| list(&run.warnings)))
}

/// The newest of these warnings, the newest first.
pub fn list(warnings: &[Warning]) -> Markup {
    html! {
        ul.gaps {
            @for warning in warnings.iter().rev().take(SHOWN) {
                li { @if warning.is_error { strong { "error: " } } (warning.message) }
            }
        }
        @if warnings.len() > SHOWN { p.aside { (counted(warnings.len() - SHOWN, "earlier one")) " in warnings.jsonl" } }
    }
}
