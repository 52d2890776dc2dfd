//! The value that a handler watches: a metric, or the training loss.

use hearth_engine::{Better, Context, Level};

/// Names of the training loss: the mean over the steps of an epoch.
const LOSSES: [&str; 3] = ["loss", "train_loss", "mean_loss"];

/// Whether a name is that of the training loss, and of no metric.
fn is_loss(name: &str, cx: &Context<'_>) -> bool {
    LOSSES.contains(&name) && !cx.state.metrics.contains_key(name)
}

/// The value of this epoch, if there is one, and which values are better unless `better` is given.
/// Of the training loss every epoch has one, and lower is better.
pub(crate) fn watched(name: &str, better: Option<Better>, cx: &mut Context<'_>) -> Option<(f64, Better)> {
    if is_loss(name, cx) {
        let loss = cx.host.output("mean_loss").ok()?;
        return Some((loss, better.unwrap_or(Better::Lower)));
    }
    Some((cx.state.fresh(name)?, better.unwrap_or(cx.state.better)))
}

/// Warns at the end of a run that the value was never computed, so that `handler` did nothing.
pub(crate) fn warn_of_unknown(handler: &str, name: &str, cx: &mut Context<'_>) {
    if is_loss(name, cx) || cx.state.metrics.contains_key(name) {
        return;
    }
    let known = cx.state.metrics.keys().map(String::as_str).chain(["loss"]).collect::<Vec<_>>().join(", ");
    let text = format!("{handler} watched `{name}`, which was never computed; it can watch: {known}");
    cx.host.log(Level::Warn, &text);
}
