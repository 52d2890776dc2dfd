//! Missing parts of the runs, and how to add them.

use maud::{Markup, html};

use super::{View, name};

/// The list; `None` if nothing is missing.
pub fn show(view: &View<'_>) -> Option<Markup> {
    let failures: Vec<(usize, String)> = view
        .each()
        .flat_map(|(place, run)| {
            run.summary.iter().flat_map(move |summary| summary.handlers.iter().map(move |h| (place, h)))
        })
        .filter_map(|(place, handler)| {
            let (errors, first, disabled) = handler.failure.as_ref()?;
            let times = if *errors == 1 { "once".to_owned() } else { format!("{errors} times") };
            let fate = if *disabled { "was not called again" } else { "the run continued" };
            let (of, name) = (&handler.engine, &handler.name);
            Some((place, format!("The handler {name} of the {of} failed {times} and {fate}; first: {first}")))
        })
        .collect();
    let gaps = view.each().flat_map(|(place, run)| run.gaps.iter().map(move |gap| (place, gap.clone())));
    let all: Vec<(usize, String)> = failures.into_iter().chain(gaps).collect();
    if all.is_empty() && view.left_out.is_empty() {
        return None;
    }
    Some(html! {
        ul.gaps {
            @for (place, gap) in &all {
                li { @if view.several() { (name(*place, &view.runs[*place])) " " } (gap) }
            }
            @for gap in view.left_out { li { (gap) } }
        }
    })
}
