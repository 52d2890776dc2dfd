//! Measures time: [`Timing`] between events, [`summary`] in handlers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hearth_engine::{Context, Engine, Event, Handler, HandlerError, Level, When};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The options of [`Timing`], which has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimingOptions {}

/// Measures the time between consecutive events of an iteration and logs a table when the run is
/// over: the shares of fetching data, the forward pass and the backward pass. On an asynchronous
/// device the time shows where the host waits, which is where a result is first needed.
///
/// ```
/// # use hearth_handlers::Timing;
/// # use hearth_plugin::testkit::Rehearsal;
/// let mut run = Rehearsal::new(Timing::default());
/// run.epochs(1, 3)?;
/// assert_eq!(run.handler.seconds()["forward_completed -> loss_completed"].0, 3);
/// # Ok::<(), hearth_engine::HandlerError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Timing {
    last: Option<(Event, Instant)>,
    spent: BTreeMap<(Event, Event), (u64, Duration)>,
}

/// The events of an iteration, in order.
const STEPS: [Event; 8] = [
    Event::GetBatchStarted,
    Event::GetBatchCompleted,
    Event::IterationStarted,
    Event::ForwardCompleted,
    Event::LossCompleted,
    Event::BackwardCompleted,
    Event::ModelCompleted,
    Event::IterationCompleted,
];

impl Timing {
    /// The seconds from one event to the next and the number of measurements, by the names of the
    /// pair.
    pub fn seconds(&self) -> BTreeMap<String, (u64, f64)> {
        let name = |(from, to): &(Event, Event)| format!("{from} -> {to}");
        self.spent.iter().map(|(pair, (calls, time))| (name(pair), (*calls, time.as_secs_f64()))).collect()
    }

    /// The table.
    pub fn table(&self) -> String {
        let rows = self
            .spent
            .iter()
            .map(|((from, to), (calls, time))| (format!("{from} -> {to}"), *calls, time.as_secs_f64()));
        table("between events", &rows.collect::<Vec<_>>())
    }
}

impl Handler for Timing {
    fn name(&self) -> &str {
        "timing"
    }

    fn subscriptions(&self) -> Vec<When> {
        let ends = Event::EpochCompleted | Event::Completed;
        vec![STEPS.into_iter().fold(ends, |when, event| when | event)]
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let now = Instant::now();
        match event {
            Event::EpochCompleted => self.last = None,
            Event::Completed => {
                self.last = None;
                if !self.spent.is_empty() {
                    cx.host.log(Level::Info, &self.table());
                }
            }
            _ => {
                if let Some((from, since)) = self.last.replace((event, now)) {
                    let (calls, time) = self.spent.entry((from, event)).or_default();
                    *calls += 1;
                    *time += now - since;
                }
            }
        }
        Ok(())
    }
}

/// The times of an engine's events and handlers as two tables, for the summary of a run. Rows
/// without a call are skipped.
pub fn summary(engine: &Engine) -> String {
    let counts = engine.event_counts();
    let events: Vec<_> = engine
        .event_times()
        .into_iter()
        .map(|(name, seconds)| {
            let calls = counts.get(&name).copied().unwrap_or_default();
            (name, calls, seconds)
        })
        .collect();
    let handlers: Vec<_> = engine.handler_times().into_iter().map(|t| (t.name, t.calls, t.seconds)).collect();
    format!("{}\n{}", table("handlers of event", &events), table("handler", &handlers))
}

/// A table of name, calls, seconds, milliseconds per call; the longest first.
fn table(title: &str, rows: &[(String, u64, f64)]) -> String {
    let mut rows: Vec<_> = rows.iter().filter(|(_, calls, _)| *calls > 0).collect();
    rows.sort_by(|a, b| b.2.total_cmp(&a.2));
    let width =
        rows.iter().map(|(name, ..)| name.chars().count()).chain([title.chars().count()]).max().unwrap_or_default();
    let mut text = format!("{title:<width$} {:>9} {:>10} {:>11}\n", "calls", "seconds", "ms per call");
    for (name, calls, seconds) in rows {
        let each = seconds * 1e3 / *calls as f64;
        text.push_str(&format!("{name:<width$} {calls:>9} {seconds:>10.3} {each:>11.3}\n"));
    }
    text
}

handler_entry!(TimingOptions => "Timing", paper: "", about: "Measures the time between consecutive events of an iteration and logs a table at the end.", example: "", |TimingOptions {}, _| Ok(Timing::default()));
