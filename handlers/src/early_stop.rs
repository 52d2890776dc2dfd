//! Ends the run when a metric no longer improves: [`EarlyStop`].

use derive_setters::Setters;
use hearth_engine::{Better, Context, Event, Handler, HandlerError, When};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hearth_registry::{Fault, counted};

use crate::watched::{warn_of_unknown, watched};

/// Options of [`EarlyStop`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct EarlyStopOptions {
    /// Number of values without improvement after which the run ends; 1 or more.
    pub patience: u64,
    /// The metric to watch, or `loss`: the training loss, the mean over the steps of an epoch. By
    /// default the key metric.
    #[setters(into)]
    pub metric: Option<String>,
    /// Which values are better; by default as for the key metric, and lower for the loss.
    #[schemars(schema_with = "crate::registry::better_words")]
    pub better: Option<Better>,
    /// The minimum change that counts as an improvement.
    pub min_delta: f64,
    /// Whether improvements smaller than `min_delta` add up: values are then compared with the last
    /// real improvement.
    pub cumulative_delta: bool,
}

impl Default for EarlyStopOptions {
    fn default() -> Self {
        Self { patience: 10, metric: None, better: None, min_delta: 0.0, cumulative_delta: false }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Memory {
    counter: u64,
    best: Option<f64>,
}

/// Terminates the run when a metric has not improved for `patience` of its values, as ignite's
/// `EarlyStopping` does.
///
/// Epochs in which the metric was not computed do not count. NaN is not an improvement (ignite
/// counts it as one). Add it after the handler that validates.
///
/// ```
/// # use hearth_engine::Better;
/// # use hearth_handlers::{EarlyStop, EarlyStopOptions};
/// let mut stop = EarlyStop::new(EarlyStopOptions::default().patience(2))?;
/// let ends = [0.5, 0.6, 0.6, 0.5].map(|dice| stop.step(dice, Better::Higher));
/// assert_eq!(ends, [false, false, false, true]);
/// # Ok::<(), hearth_registry::Fault>(())
/// ```
#[derive(Clone, Debug)]
pub struct EarlyStop {
    options: EarlyStopOptions,
    memory: Memory,
}

impl EarlyStop {
    /// A handler with these options.
    ///
    /// # Errors
    /// If the patience is 0, or the delta is negative or NaN.
    pub fn new(options: EarlyStopOptions) -> Result<Self, Fault> {
        if options.patience == 0 {
            return Err(Fault::at("patience", "`patience` is 0; give 1 or more"));
        }
        if !options.min_delta.is_finite() || options.min_delta < 0.0 {
            let what = format!("`min_delta` is {}; give 0 or more", options.min_delta);
            return Err(Fault::at("min_delta", what));
        }
        Ok(Self { options, memory: Memory::default() })
    }

    /// Processes the next value; returns `true` when patience has run out.
    pub fn step(&mut self, value: f64, better: Better) -> bool {
        // From here on higher is better.
        let score = if better == Better::Higher { value } else { -value };
        let Memory { counter, best } = &mut self.memory;
        let Some(known) = *best else {
            *best = Some(score).filter(|score| !score.is_nan());
            return false;
        };
        if score > known + self.options.min_delta {
            (*counter, *best) = (0, Some(score));
            return false;
        }
        if !self.options.cumulative_delta {
            // `max` ignores NaN.
            *best = Some(known.max(score));
        }
        *counter += 1;
        *counter >= self.options.patience
    }
}

impl Handler for EarlyStop {
    fn name(&self) -> &str {
        "early_stop"
    }

    fn subscriptions(&self) -> Vec<When> {
        vec![Event::EpochCompleted | Event::Completed]
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let Some(metric) = self.options.metric.clone().or_else(|| cx.state.key_metric.clone()) else {
            return Err(HandlerError::new("no metric to watch; give `metric`, or name a key metric"));
        };
        if event == Event::Completed {
            warn_of_unknown("early_stop", &metric, cx);
            return Ok(());
        }
        let Some((value, better)) = watched(&metric, self.options.better, cx) else { return Ok(()) };
        if self.step(value, better) {
            let patience = usize::try_from(self.options.patience).unwrap_or(usize::MAX);
            let evaluations = counted(patience, "evaluation");
            cx.host.terminate(&format!("{metric} has not improved for {evaluations}, it is {value:.4}"));
        }
        Ok(())
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(&self.memory).ok()
    }

    fn load_state(&mut self, state: &[u8]) -> Result<(), HandlerError> {
        self.memory = serde_json::from_slice(state)?;
        Ok(())
    }
}

handler_entry!(EarlyStopOptions => "EarlyStop", paper: "", about: "Ends the run when a metric has not improved for `patience` of its values, as ignite's `EarlyStopping`.", example: "patience = 20", |options, _| EarlyStop::new(options));
