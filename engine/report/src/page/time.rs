//! Where the time of a run went: epochs, handlers, events, waits of ranks.

use maud::{Markup, html};

use super::View;
use super::table::{Bar, bars};
use crate::run::{Run, Summary};
use crate::text::{NONE, duration, words};

/// The time in seconds below which rows are combined.
const SHORT: f64 = 0.005;

/// The tables; `None` if no run has times.
pub fn show(view: &View<'_>) -> Option<Markup> {
    view.per_run(|_, run| run.summary.as_ref().and_then(|summary| times(run, summary)))
}

fn times(run: &Run, summary: &Summary) -> Option<Markup> {
    let mut tables = Vec::new();
    let total = summary.seconds;
    let parts = parts(run, summary);
    if !parts.is_empty() {
        let caption = match total {
            Some(total) if run.is_resumed() => format!("Since it was resumed, the run took {}", duration(total)),
            Some(total) => format!("The whole run took {}", duration(total)),
            None => "Parts of the run".to_owned(),
        };
        tables.push(bars(&caption, ["part", "time", "share"], &parts));
    }
    let handlers = summary.handlers.iter().filter(|handler| handler.calls > 0);
    let rows = handlers.map(|handler| Bar {
        name: html! { (words(&handler.name)) span.aside { " of the " (handler.engine) } },
        value: handler.seconds,
        shown: duration(handler.seconds),
        note: handler.calls.to_string(),
    });
    tables.extend(longest_first("Handlers", ["handler", "time", "calls"], rows.collect()));
    let events = summary.events.iter().filter(|event| event.count != Some(0));
    let rows = events.map(|event| Bar {
        name: html! { (words(&event.name)) },
        value: event.seconds,
        shown: duration(event.seconds),
        note: event.count.map_or_else(|| NONE.to_owned(), |count| count.to_string()),
    });
    let caption = "All handlers of each event of the trainer";
    tables.extend(longest_first(caption, ["event", "time", "times fired"], rows.collect()));
    if summary.waits.len() > 1 {
        tables.push(waits(&summary.waits));
    }
    (!tables.is_empty()).then(|| html! { div.columns { @for table in &tables { (table) } } })
}

/// A table that combines its short rows into one; `None` without rows.
fn longest_first(caption: &str, heads: [&str; 3], mut rows: Vec<Bar>) -> Option<Markup> {
    rows.sort_by(|a, b| b.value.total_cmp(&a.value));
    let long = rows.iter().filter(|row| row.value >= SHORT).count().max(3).min(rows.len());
    let short = rows.split_off(long);
    if !short.is_empty() {
        let seconds = short.iter().map(|row| row.value).sum();
        let name = html! { (short.len()) " others, each below " (duration(SHORT)) };
        rows.push(Bar { name, value: seconds, shown: duration(seconds), note: String::new() });
    }
    (!rows.is_empty()).then(|| bars(caption, heads, &rows))
}

/// The parts of the total time, as far as the files show: the trainer's slow handlers, the rest of the
/// epochs, and the time before and after them.
fn parts(run: &Run, summary: &Summary) -> Vec<Bar> {
    let Some(total) = summary.seconds.filter(|total| *total > 0.0) else { return Vec::new() };
    let of_trainer = summary.handlers.iter().filter(|handler| handler.engine != "validation");
    let handled =
        |name: &str| of_trainer.clone().filter(|handler| handler.name == name).map(|handler| handler.seconds).sum();
    let (validation, checkpoints): (f64, f64) = (handled("validation"), handled("checkpoint"));
    let others = of_trainer.clone().map(|handler| handler.seconds).sum::<f64>() - validation - checkpoints;
    let epochs: f64 = run.epochs.iter().filter_map(|epoch| epoch.seconds).sum();
    let tuning = summary.tuning_seconds.unwrap_or_default();
    // For a resumed run, the log has the epochs of all its parts, and the summary only those of the
    // last one.
    let fits = epochs > 0.0 && epochs <= total;
    // The time of an epoch ends before its own handlers, and includes those of its steps.
    let outside = ["started", "epoch_completed", "completed", "terminate", "interrupt", "exception_raised"];
    let of_steps = summary.events.iter().filter(|event| !outside.contains(&event.name.as_str()));
    let steps = if fits { (epochs - of_steps.map(|event| event.seconds).sum::<f64>()).max(0.0) } else { 0.0 };
    let rest = total - steps - validation - checkpoints - others - tuning;
    let mut rows = vec![("validation", validation), ("checkpoints", checkpoints), ("other handlers", others)];
    rows.push(("choosing kernels", tuning));
    if fits {
        rows.push(("training steps and their data", steps));
        rows.push(("caches, building the network, writing at the end", rest));
    } else {
        rows.push(("training steps, their data, and the rest", rest));
    }
    rows.retain(|(_, seconds)| *seconds > 0.0);
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    let bar = |(name, seconds): (&str, f64)| Bar {
        name: html! { (name) },
        value: seconds,
        shown: duration(seconds),
        note: format!("{:.0} %", seconds / total * 100.0),
    };
    rows.into_iter().map(bar).collect()
}

/// The time that each rank waited for the others. The one that waits least is the slowest.
fn waits(ranks: &[Vec<(String, f64)>]) -> Markup {
    let total = |phases: &[(String, f64)]| phases.iter().map(|(_, seconds)| *seconds).sum::<f64>();
    let longest =
        |phases: &[(String, f64)]| phases.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| name.clone());
    let rows: Vec<Bar> = ranks
        .iter()
        .enumerate()
        .map(|(rank, phases)| Bar {
            name: html! { "rank " (rank) },
            value: total(phases),
            shown: duration(total(phases)),
            note: longest(phases).unwrap_or_default(),
        })
        .collect();
    bars("Waiting for other ranks; the one that waits least is the slowest", ["rank", "waited", "most in"], &rows)
}
