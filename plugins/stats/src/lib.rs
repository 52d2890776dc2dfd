//! The plugin `stats`: lines about the run, in the format of MONAI's `StatsHandler`.
//!
//! ```text
//! Epoch: 1/40, Iter: 3/16 -- Loss: 0.8123
//! Epoch[1] Metrics -- dice: 0.7012
//! Key metric: dice best value: 0.7012 at epoch: 1
//! ```
//!
//! The loss is read back from the device only in the iterations that are reported.

#![forbid(unsafe_code)]

use std::fmt::Write;

use hearth_plugin::{Context, Event, Handler, HandlerError, Level, OnError, Ranks, When, export_plugin, options};

options! {
    /// Options of the plugin.
    pub struct Options {
        /// Iterations between two lines; 0 for none.
        every_iterations: u64 = 1,
        /// Epochs between two lines; 0 for none.
        every_epochs: u64 = 1,
        /// The output of an iteration to report.
        output: String = "loss".into(),
        /// The label of the output in the line.
        tag: String = "Loss".into(),
    }
}

/// Writes lines about the run.
#[derive(Clone, Debug)]
pub struct Stats {
    options: Options,
    /// Whether the engine lacks this output: an evaluator has no loss.
    no_output: bool,
}

impl Stats {
    /// The handler with these options.
    pub fn new(options: Options) -> Self {
        Self { options, no_output: false }
    }

    fn iteration(&mut self, cx: &mut Context<'_>) {
        if self.no_output {
            return;
        }
        let value = match cx.host.output(&self.options.output) {
            Ok(value) => value,
            Err(error) => {
                self.no_output = true;
                cx.host.log(Level::Warn, &format!("no lines for iterations of {}: {error}", cx.state.engine));
                return;
            }
        };
        let state = cx.state;
        let (iteration, length) = match state.epoch_length {
            Some(length) if length > 0 => ((state.iteration.max(1) - 1) % length + 1, length.to_string()),
            _ => (state.iteration, "?".to_owned()),
        };
        let (epoch, epochs, tag) = (state.epoch, state.max_epochs, &self.options.tag);
        let line = format!("Epoch: {epoch}/{epochs}, Iter: {iteration}/{length} -- {tag}: {value:.4}");
        cx.host.log(Level::Info, &line);
    }

    fn epoch(&self, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let state = cx.state;
        if !state.metrics.is_empty() {
            let mut line = format!("Epoch[{}] Metrics --", state.epoch);
            for (name, value) in &state.metrics {
                write!(line, " {name}: {value:.4}")?;
            }
            cx.host.log(Level::Info, &line);
        }
        if let (Some(name), Some(best), Some(epoch)) = (&state.key_metric, state.best_metric, state.best_epoch) {
            cx.host.log(Level::Info, &format!("Key metric: {name} best value: {best:.4} at epoch: {epoch}"));
        }
        Ok(())
    }
}

impl Handler for Stats {
    fn name(&self) -> &str {
        "stats"
    }

    fn subscriptions(&self) -> Vec<When> {
        let mut whens = vec![Event::ExceptionRaised.into()];
        if self.options.every_iterations > 0 {
            whens.push(Event::IterationCompleted.every(self.options.every_iterations));
        }
        if self.options.every_epochs > 0 {
            whens.push(Event::EpochCompleted.every(self.options.every_epochs));
        }
        whens
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match event {
            Event::IterationCompleted => {
                self.iteration(cx);
                Ok(())
            }
            Event::EpochCompleted => self.epoch(cx),
            Event::ExceptionRaised => {
                let what = cx.state.exception.as_deref().unwrap_or("unknown");
                // The program itself prints its error.
                cx.host.log(Level::Debug, &format!("Exception: {what}"));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A line that cannot be written must not end a run, and is not tried again.
    fn on_error(&self) -> OnError {
        OnError::Disable
    }

    fn ranks(&self) -> Ranks {
        Ranks::First
    }
}

export_plugin!("stats", Options, Stats::new, needs: []);
