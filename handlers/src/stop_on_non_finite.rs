//! Stops the run when the loss is non-finite: [`StopOnNonFinite`].

use derive_setters::Setters;
use hearth_engine::{Context, Event, Handler, HandlerError, When};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hearth_registry::Fault;

/// The point at which [`StopOnNonFinite`] checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LookAt {
    /// Before the gradients are computed, so that the weights are still good when the run stops.
    #[default]
    LossCompleted,
    /// When the iteration is complete (for workflows without `LossCompleted`).
    IterationCompleted,
}

/// Options of [`StopOnNonFinite`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct StopOnNonFiniteOptions {
    /// The output to check, by the workflow's name.
    #[setters(into)]
    pub output: String,
    /// The point at which to check.
    pub at: LookAt,
    /// Iterations between two checks. Each check waits for the device to finish the forward pass.
    pub every: u64,
}

impl Default for StopOnNonFiniteOptions {
    fn default() -> Self {
        Self { output: "loss".into(), at: LookAt::default(), every: 1 }
    }
}

/// Stops the run with an error when the loss is infinite or NaN. The error names the iteration, the
/// cases and the learning rate. Checkpoints requested at the same event are not written.
///
/// ```
/// # use hearth_handlers::{StopOnNonFinite, StopOnNonFiniteOptions};
/// # use hearth_plugin::testkit::Rehearsal;
/// let mut run = Rehearsal::new(StopOnNonFinite::new(StopOnNonFiniteOptions::default())?);
/// run.host.outputs.insert("loss".to_owned(), f64::NAN);
/// let error = run.epochs(1, 1).unwrap_err().to_string();
/// assert!(error.starts_with("the loss is NaN at epoch 1, iteration 1"), "{error}");
/// # Ok::<(), hearth_registry::Fault>(())
/// ```
#[derive(Clone, Debug)]
pub struct StopOnNonFinite(StopOnNonFiniteOptions);

impl StopOnNonFinite {
    /// A handler with these options.
    ///
    /// # Errors
    /// If `every` is 0.
    pub fn new(options: StopOnNonFiniteOptions) -> Result<Self, Fault> {
        if options.every == 0 {
            return Err(Fault::at("every", "`every` is 0; give 1 or more"));
        }
        Ok(Self(options))
    }
}

impl Handler for StopOnNonFinite {
    fn name(&self) -> &str {
        "stop_on_non_finite"
    }

    fn subscriptions(&self) -> Vec<When> {
        let event = match self.0.at {
            LookAt::LossCompleted => Event::LossCompleted,
            LookAt::IterationCompleted => Event::IterationCompleted,
        };
        let every = self.0.every;
        vec![event.filter(move |state, _| state.iteration.is_multiple_of(every))]
    }

    fn handle(&mut self, _: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let output = &self.0.output;
        let value = cx.host.output(output)?;
        if value.is_finite() {
            return Ok(());
        }
        let cases = match cx.host.cases() {
            cases if cases.is_empty() => "not known".to_owned(),
            cases => cases.join(", "),
        };
        let rate = cx.host.learning_rate().map_or("not known".to_owned(), |rate| rate.to_string());
        Err(HandlerError::new(format!(
            "the {output} is {value} at epoch {}, iteration {} (cases: {cases}; learning rate: {rate}); \
             lower the learning rate, or inspect these cases",
            cx.state.epoch, cx.state.iteration
        )))
    }
}

handler_entry!(StopOnNonFiniteOptions => "StopOnNonFinite", paper: "", about: "Stops the run with an error when the loss is infinite or NaN.", example: "every = 10", |options, _| StopOnNonFinite::new(options));
