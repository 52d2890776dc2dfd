//! Lowers the learning rate when a metric no longer improves: [`ReduceLrOnPlateau`].

use derive_setters::Setters;
use hearth_engine::{Better, Context, Event, Handler, HandlerError, Level, When};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hearth_registry::Fault;

use crate::watched::{warn_of_unknown, watched};

/// The interpretation of a threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThresholdMode {
    /// A fraction of the best value.
    #[default]
    Rel,
    /// A difference from the best value.
    Abs,
}

/// Options of [`ReduceLrOnPlateau`], with torch's names and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct PlateauOptions {
    /// The metric to watch, or `loss`: the training loss, the mean over the steps of an epoch. By
    /// default the key metric.
    #[setters(into)]
    pub metric: Option<String>,
    /// Which values are better; by default as for the key metric, and lower for the loss.
    #[schemars(schema_with = "crate::registry::better_words")]
    pub better: Option<Better>,
    /// The factor that multiplies the rate.
    pub factor: f64,
    /// Number of values without improvement before the rate is reduced.
    pub patience: u64,
    /// The minimum change that counts as an improvement.
    pub threshold: f64,
    /// The interpretation of `threshold`.
    pub threshold_mode: ThresholdMode,
    /// Number of values that are ignored after a reduction.
    pub cooldown: u64,
    /// The lowest rate.
    pub min_lr: f64,
    /// Smaller reductions are skipped.
    pub eps: f64,
}

impl Default for PlateauOptions {
    fn default() -> Self {
        Self {
            metric: None,
            better: None,
            factor: 0.1,
            patience: 10,
            threshold: 1e-4,
            threshold_mode: ThresholdMode::Rel,
            cooldown: 0,
            min_lr: 0.0,
            eps: 1e-8,
        }
    }
}

/// The state so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Memory {
    best: Option<f64>,
    bad: u64,
    cooldown: u64,
}

/// torch's `ReduceLROnPlateau`: multiplies the learning rate when a metric has not improved for
/// `patience` epochs. Epochs in which the metric was not computed do not count. Add it after the
/// handler that validates.
///
/// ```
/// # use hearth_engine::Better;
/// # use hearth_handlers::{PlateauOptions, ReduceLrOnPlateau};
/// let mut plateau = ReduceLrOnPlateau::new(PlateauOptions::default().patience(1).factor(0.5))?;
/// let rates = [0.6, 0.6, 0.6].map(|dice| plateau.step(dice, Better::Higher, 0.1));
/// assert_eq!(rates, [None, None, Some(0.05)]);
/// # Ok::<(), hearth_registry::Fault>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReduceLrOnPlateau {
    options: PlateauOptions,
    memory: Memory,
}

impl ReduceLrOnPlateau {
    /// A handler with these options.
    ///
    /// # Errors
    /// If the factor is not in `[0, 1)`, or a threshold or rate is negative.
    pub fn new(options: PlateauOptions) -> Result<Self, Fault> {
        if !(0.0..1.0).contains(&options.factor) {
            let what = format!("`factor` is {}; give at least 0 and less than 1", options.factor);
            return Err(Fault::at("factor", what));
        }
        for (name, value) in [("threshold", options.threshold), ("min_lr", options.min_lr), ("eps", options.eps)] {
            if !value.is_finite() || value < 0.0 {
                return Err(Fault::at(name, format!("`{name}` is {value}; give 0 or more")));
            }
        }
        Ok(Self { options, memory: Memory::default() })
    }

    fn improves(&self, value: f64, better: Better) -> bool {
        let Some(best) = self.memory.best else { return !value.is_nan() };
        let PlateauOptions { threshold, threshold_mode, .. } = self.options;
        match (better, threshold_mode) {
            (Better::Lower, ThresholdMode::Rel) => value < best * (1.0 - threshold),
            (Better::Lower, ThresholdMode::Abs) => value < best - threshold,
            (Better::Higher, ThresholdMode::Rel) => value > best * (1.0 + threshold),
            (Better::Higher, ThresholdMode::Abs) => value > best + threshold,
        }
    }

    /// Processes the next value of the metric; returns the new rate if it is reduced.
    pub fn step(&mut self, value: f64, better: Better, rate: f64) -> Option<f64> {
        if self.improves(value, better) {
            self.memory.best = Some(value);
            self.memory.bad = 0;
        } else {
            self.memory.bad += 1;
        }
        if self.memory.cooldown > 0 {
            self.memory.cooldown -= 1;
            self.memory.bad = 0;
        }
        if self.memory.bad <= self.options.patience {
            return None;
        }
        self.memory.cooldown = self.options.cooldown;
        self.memory.bad = 0;
        let lower = (rate * self.options.factor).max(self.options.min_lr);
        (rate - lower > self.options.eps).then_some(lower)
    }
}

impl Handler for ReduceLrOnPlateau {
    fn name(&self) -> &str {
        "reduce_lr_on_plateau"
    }

    fn subscriptions(&self) -> Vec<When> {
        vec![Event::EpochCompleted | Event::Completed]
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let Some(metric) = self.options.metric.clone().or_else(|| cx.state.key_metric.clone()) else {
            return Err(HandlerError::new("no metric to watch; give `metric`, or name a key metric"));
        };
        if event == Event::Completed {
            warn_of_unknown("reduce_lr_on_plateau", &metric, cx);
            return Ok(());
        }
        let Some((value, better)) = watched(&metric, self.options.better, cx) else { return Ok(()) };
        let rate = cx.host.learning_rate().ok_or_else(|| HandlerError::new("there is no optimizer to schedule"))?;
        if let Some(lower) = self.step(value, better, rate) {
            cx.host.log(Level::Info, &format!("{metric} no longer improves: learning rate {rate} -> {lower}"));
            cx.host.set_learning_rate(lower)?;
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

handler_entry!(PlateauOptions => "ReduceLROnPlateau", paper: "", about: "Lowers the learning rate when a metric has not improved for `patience` epochs, as torch's.", example: "patience = 5\nfactor = 0.5", |options, _| ReduceLrOnPlateau::new(options));
