//! The state of a run: [`State`]. It serializes, and a run is resumed from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Metrics by name, sorted.
pub type Metrics = BTreeMap<String, f64>;

/// The direction in which a metric improves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// A larger value is better (Dice).
    #[default]
    Higher,
    /// A smaller value is better (a loss).
    Lower,
}

/// The position of the run in the data. An epoch usually is one pass. If its length was set by
/// hand, a pass may end in the middle of an epoch or continue into the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Pass {
    /// Number of passes begun so far, from 1. Random draws of the data are keyed by it; it equals
    /// the epoch if an epoch is a pass.
    pub number: u64,
    /// Number of batches of this pass whose iteration is complete.
    pub taken: u64,
    /// Number of batches of the pass, if known.
    pub length: Option<u64>,
    /// Whether the next batch comes from this pass; otherwise a new one is begun.
    pub open: bool,
}

/// A number that a handler published with [`Host::scalar`](crate::Host::scalar).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalar {
    /// The number.
    pub value: f64,
    /// `state.iteration` when it was published.
    pub iteration: u64,
}

/// The end of a run that a handler asked for with [`Host::terminate`](crate::Host::terminate).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Termination {
    /// The name of the handler.
    pub by: String,
    /// The handler's reason.
    pub why: String,
    /// The number of epochs that the run should have had.
    pub max_epochs: u64,
}

/// Counters, metrics and times of a run. It serializes; a run is resumed from it. MONAI's and
/// ignite's `engine.state`.
///
/// ```
/// use hearth_engine::State;
/// let mut state = State::new("trainer");
/// state.key_metric = Some("val_mean_dice".into());
/// state.epoch = 1;
/// state.observe("val_mean_dice", 0.81);
/// assert!(state.is_best());
/// state.epoch = 2;
/// assert_eq!(state.metrics["val_mean_dice"], 0.81); // as last set
/// assert_eq!(state.fresh("val_mean_dice"), None); // not set in this epoch
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct State {
    /// Name of the engine: `trainer`, `validation`, ...
    pub engine: String,
    /// Epochs started so far, from 1 within an epoch.
    pub epoch: u64,
    /// Iterations started so far over all epochs, from 1 within an iteration.
    pub iteration: u64,
    /// Number of iterations of an epoch; `None` until the first pass over a loader of unknown
    /// length ends.
    pub epoch_length: Option<u64>,
    /// Number of complete iterations of the current epoch. A resumed run continues from here.
    pub epoch_iteration: u64,
    /// Whether nothing of the current epoch is left to run: it is complete, or `terminate`
    /// abandoned it.
    pub epoch_done: bool,
    /// The position of the run in the data.
    pub pass: Pass,
    /// Number of epochs to run.
    pub max_epochs: u64,
    /// Metrics as they were last set.
    pub metrics: Metrics,
    /// The epoch in which each metric was last set.
    pub observed: BTreeMap<String, u64>,
    /// The metric that decides which epoch is best.
    pub key_metric: Option<String>,
    /// The direction in which the key metric improves.
    pub better: Better,
    /// The key metric's best value so far.
    pub best_metric: Option<f64>,
    /// The epoch of the best value.
    pub best_epoch: Option<u64>,
    /// Seconds by event name: of the last epoch (`epoch_completed`), of the whole run
    /// (`completed`).
    pub times: BTreeMap<String, f64>,
    /// The rank of this process among those that train together.
    pub rank: u32,
    /// Number of processes that train together.
    pub world_size: u32,
    /// The seed that every random draw is keyed by.
    pub seed: u64,
    /// Whether the run has reached its end.
    pub finished: bool,
    /// The end that a handler asked for, until the run continues: see
    /// [`Engine::run`](crate::Engine::run).
    /// It is for the owner of the engine; handlers of plugins that are not isolated read `None`.
    // Written although it is `None`: processes of isolated plugins read a state by position.
    pub terminated: Option<Termination>,
    /// The newest value of each number that handlers published for curves, by tag.
    #[serde(skip)]
    pub scalars: BTreeMap<String, Scalar>,
    /// Inside `exception_raised`: the error that ended the run.
    #[serde(skip)]
    pub exception: Option<String>,
}

impl State {
    /// The state before a run: epoch 0, one process, seed 0.
    pub fn new(engine: impl Into<String>) -> Self {
        Self { engine: engine.into(), world_size: 1, ..Self::default() }
    }

    /// Records a metric. If it is the key metric and the best so far, updates the best value and
    /// its epoch. NaN is recorded but is never the best.
    pub fn observe(&mut self, name: &str, value: f64) {
        self.metrics.insert(name.to_owned(), value);
        self.observed.insert(name.to_owned(), self.epoch);
        if self.key_metric.as_deref() != Some(name) || value.is_nan() {
            return;
        }
        let improves = match (self.best_metric, self.better) {
            (None, _) => true,
            (Some(best), Better::Higher) => value > best,
            (Some(best), Better::Lower) => value < best,
        };
        if improves {
            self.best_metric = Some(value);
            self.best_epoch = Some(self.epoch);
        }
    }

    /// The metric's value, if it was set in the current epoch (validation may run only every few
    /// epochs).
    pub fn fresh(&self, name: &str) -> Option<f64> {
        self.metrics.get(name).copied().filter(|_| self.observed.get(name) == Some(&self.epoch))
    }

    /// Whether the current epoch has the best key metric so far.
    pub fn is_best(&self) -> bool {
        self.best_epoch == Some(self.epoch) && self.epoch > 0
    }
}
