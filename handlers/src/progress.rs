//! Shows the progress of the run: [`Progress`].

use derive_setters::Setters;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use hearth_engine::{Context, Event, Handler, HandlerError, OnError, Ranks, State, When};
use indicatif::{ProgressBar, ProgressStyle};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of [`Progress`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct ProgressOptions {
    /// Iterations between two updates of the loss, which is also shown at the end of an epoch; 0
    /// never shows it. Reading it waits for the device.
    pub every: u64,
}

impl Default for ProgressOptions {
    fn default() -> Self {
        Self { every: 10 }
    }
}

enum Output {
    /// A bar on the terminal, while an epoch runs.
    Bar(Option<ProgressBar>),
    /// A line per epoch.
    Lines(Box<dyn Write + Send>),
}

/// A bar with the time left on a terminal, and a line per epoch everywhere. Writes to standard
/// error.
///
/// ```
/// # use hearth_handlers::{Progress, ProgressOptions};
/// # use hearth_plugin::testkit::Rehearsal;
/// let lines = tempfile::NamedTempFile::new()?;
/// let progress = Progress::lines(ProgressOptions::default(), lines.reopen()?);
/// Rehearsal::new(progress).epochs(2, 1)?;
/// assert!(std::fs::read_to_string(lines.path())?.contains("epoch 2/2"));
/// # Ok::<(), hearth_engine::HandlerError>(())
/// ```
pub struct Progress {
    options: ProgressOptions,
    output: Output,
    loss: Option<f64>,
    /// The start of this process, and the number of iterations done by then.
    begun: Option<(Instant, u64)>,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Progress {
    /// A bar if standard error is a terminal, lines if it is not.
    pub fn new(options: ProgressOptions) -> Self {
        let output = if std::io::stderr().is_terminal() {
            Output::Bar(None)
        } else {
            Output::Lines(Box::new(std::io::stderr()))
        };
        Self { options, output, loss: None, begun: None }
    }

    /// Lines, written to this writer.
    pub fn lines(options: ProgressOptions, writer: impl Write + Send + 'static) -> Self {
        Self { options, output: Output::Lines(Box::new(writer)), loss: None, begun: None }
    }

    fn left(&self, state: &State) -> Option<Duration> {
        let (since, before) = self.begun?;
        let done = state.iteration.checked_sub(before).filter(|done| *done > 0)?;
        let total = state.epoch_length?.checked_mul(state.max_epochs)?;
        // After an epoch that ended early, the counter exceeds the iterations done.
        let epochs_left = state.max_epochs.saturating_sub(state.epoch);
        let here = state.epoch_length?.saturating_sub(state.epoch_iteration);
        let left = (epochs_left.saturating_mul(state.epoch_length?) + here).min(total);
        Some(since.elapsed().mul_f64(left as f64 / done as f64))
    }

    fn message(&self, cx: &Context<'_>) -> String {
        let mut text = self.loss.map(|loss| format!("loss {loss:.4}")).unwrap_or_default();
        if let Some(left) = self.left(cx.state) {
            text.push_str(&format!("  {} left", clock(left)));
        }
        text.trim_start().to_owned()
    }

    fn epoch_line(&self, state: &State) -> String {
        let mut line = format!("epoch {}/{}", state.epoch, state.max_epochs);
        if let Some(loss) = self.loss {
            line.push_str(&format!("  loss {loss:.4}"));
        }
        for name in state.metrics.keys() {
            if let Some(value) = state.fresh(name) {
                let best = if state.key_metric.as_ref() == Some(name) && state.is_best() { " (best)" } else { "" };
                line.push_str(&format!("  {name} {value:.4}{best}"));
            }
        }
        if let Some(seconds) = state.times.get("epoch_completed") {
            line.push_str(&format!("  {seconds:.1} s"));
        }
        if let Some(left) = self.left(state).filter(|_| state.epoch < state.max_epochs) {
            line.push_str(&format!("  {} left", clock(left)));
        }
        line
    }

    /// Prints a line. A closed terminal must not end the run, so a line that cannot be written is
    /// dropped.
    fn say(&mut self, line: &str) {
        match &mut self.output {
            Output::Bar(bar) => {
                if let Some(bar) = bar.take() {
                    bar.finish_and_clear();
                }
                let _ = writeln!(std::io::stderr(), "{line}");
            }
            Output::Lines(writer) => {
                let _ = writeln!(writer, "{line}").and_then(|()| writer.flush());
            }
        }
    }
}

/// Formats `1:02:03`, `2:03` or `12 s`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        _ => format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

impl Handler for Progress {
    fn name(&self) -> &str {
        "progress"
    }

    fn subscriptions(&self) -> Vec<When> {
        let ends = Event::EpochCompleted | Event::Completed | Event::Interrupt | Event::ExceptionRaised;
        vec![Event::IterationStarted | Event::IterationCompleted | ends]
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match event {
            Event::IterationStarted => {
                self.begun.get_or_insert_with(|| (Instant::now(), cx.state.iteration - 1));
            }
            Event::IterationCompleted => {
                let last = cx.state.epoch_length.is_some_and(|length| cx.state.epoch_iteration >= length);
                let wanted = last || cx.state.iteration.is_multiple_of(self.options.every.max(1));
                if self.options.every > 0 && wanted {
                    self.loss = cx.host.output("loss").ok();
                }
                let message = self.message(cx);
                if let Output::Bar(bar) = &mut self.output {
                    let bar = bar.get_or_insert_with(|| new_bar(cx.state));
                    bar.set_message(message);
                    bar.set_position(cx.state.epoch_iteration);
                }
            }
            Event::EpochCompleted => {
                // The mean over the steps, as in the log.
                self.loss = cx.host.output("mean_loss").ok().filter(|_| self.options.every > 0).or(self.loss);
                let line = self.epoch_line(cx.state);
                self.say(&line);
            }
            _ => {
                if let Output::Bar(Some(bar)) = &self.output {
                    bar.finish_and_clear();
                }
                self.begun = None;
            }
        }
        Ok(())
    }

    fn on_error(&self) -> OnError {
        // A closed terminal must not end a run.
        OnError::Disable
    }

    fn ranks(&self) -> Ranks {
        Ranks::First
    }
}

fn new_bar(state: &State) -> ProgressBar {
    let bar = match state.epoch_length {
        Some(length) => ProgressBar::new(length),
        None => ProgressBar::no_length(),
    };
    let template = format!("epoch {}/{} [{{bar:30}}] {{pos}}/{{len}}  {{msg}}", state.epoch, state.max_epochs);
    match ProgressStyle::with_template(&template) {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}

handler_entry!(ProgressOptions => "Progress", paper: "", about: "A bar with the time left on a terminal, and a line per epoch everywhere.", example: "every = 5", |options, _| Ok(Progress::new(options)));
