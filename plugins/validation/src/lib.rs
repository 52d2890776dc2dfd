//! The plugin `validation`: runs the evaluator every so many epochs or iterations, as MONAI's `ValidationHandler` does.
//! The engine records the metrics that come back.

use hearth_plugin::{Context, Event, Handler, HandlerError, When, export_plugin, options};

options! {
    /// Options of the plugin.
    pub struct Options {
        /// Validate every so many epochs or iterations.
        interval: u64 = 1,
        /// Count epochs; otherwise iterations.
        epoch_level: bool = true,
        /// Validate before the first epoch as well.
        exec_at_start: bool = false,
        /// The engine to run.
        engine: String = "validation".into(),
    }
}

/// Runs the evaluator.
#[derive(Clone, Debug)]
pub struct Validation {
    options: Options,
}

impl Validation {
    /// The handler with these options.
    ///
    /// # Errors
    /// When `interval` is 0.
    pub fn new(options: Options) -> Result<Self, HandlerError> {
        if options.interval == 0 {
            return Err(HandlerError::new("`interval` is 0; give 1 or more"));
        }
        Ok(Self { options })
    }
}

impl Handler for Validation {
    fn name(&self) -> &str {
        "validation"
    }

    fn subscriptions(&self) -> Vec<When> {
        let level = if self.options.epoch_level { Event::EpochCompleted } else { Event::IterationCompleted };
        let mut whens = vec![level.every(self.options.interval)];
        if self.options.exec_at_start {
            whens.push(Event::Started.into());
        }
        whens
    }

    fn handle(&mut self, _event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        cx.host.run(&self.options.engine)?;
        Ok(())
    }
}

export_plugin!("validation", Options, Validation::new);
