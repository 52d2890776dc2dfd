//! Runs an evaluator at intervals of epochs or iterations: [`Validation`].

use derive_setters::Setters;
use hearth_engine::{Context, Event, Handler, HandlerError, When};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of [`Validation`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct ValidationOptions {
    /// Epochs or iterations between two validations; 1 or more.
    pub interval: u64,
    /// Whether the interval counts epochs; otherwise iterations.
    pub epoch_level: bool,
    /// Whether to validate before the first epoch as well.
    pub exec_at_start: bool,
    /// The evaluator to run, by its name in the trainer.
    // In a handler's table `engine` already selects whose events it receives.
    #[serde(alias = "engine")]
    #[setters(into)]
    pub evaluator: String,
}

impl Default for ValidationOptions {
    fn default() -> Self {
        Self { interval: 1, epoch_level: true, exec_at_start: false, evaluator: "validation".into() }
    }
}

/// Runs an evaluator, as MONAI's `ValidationHandler` does; the engine records its metrics.
///
/// ```
/// # use hearth_handlers::{Validation, ValidationOptions};
/// # use hearth_plugin::testkit::Rehearsal;
/// let mut run = Rehearsal::new(Validation::new(ValidationOptions::default().interval(2))?);
/// run.host.engine("validation", &[("dice", 0.9)]);
/// run.epochs(3, 1)?;
/// // After the second epoch alone.
/// assert_eq!((run.state.metrics["dice"], run.state.observed["dice"]), (0.9, 2));
/// # Ok::<(), hearth_engine::HandlerError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Validation {
    options: ValidationOptions,
}

impl Validation {
    /// A handler with these options. [`Validation::default`] validates after each epoch.
    ///
    /// # Errors
    /// If the interval is 0.
    pub fn new(options: ValidationOptions) -> Result<Self, Fault> {
        if options.interval == 0 {
            return Err(Fault::at("interval", "`interval` is 0; give 1 or more"));
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
        cx.host.run(&self.options.evaluator)?;
        Ok(())
    }
}

handler_entry!(ValidationOptions => "Validation", paper: "", about: "Runs an evaluator at intervals of epochs or iterations, as MONAI's `ValidationHandler`.", example: "interval = 2", |options, _| Validation::new(options));
