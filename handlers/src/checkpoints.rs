//! Requests checkpoints: [`Checkpoints`].

use std::path::PathBuf;

use derive_setters::Setters;
use hearth_engine::{CheckpointRequest, Context, Event, Handler, HandlerError, HostError, Ranks, State, When};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of [`Checkpoints`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointsOptions {
    /// Folder of the checkpoints, within the run's folder.
    #[setters(into)]
    pub dir: PathBuf,
    /// Epochs between two checkpoints; 0 for none.
    pub every_epochs: u64,
    /// Iterations between two checkpoints; 0 for none.
    pub every_iterations: u64,
    /// Number of newest checkpoints to keep; 0 keeps all.
    pub keep_last: usize,
    /// Whether to write a checkpoint of the best key metric.
    pub best: bool,
    /// Whether to write a checkpoint when the run is interrupted.
    pub on_interrupt: bool,
    /// Whether to write a checkpoint when the run ends.
    pub on_completed: bool,
}

impl Default for CheckpointsOptions {
    fn default() -> Self {
        Self {
            dir: "checkpoints".into(),
            every_epochs: 1,
            every_iterations: 0,
            keep_last: 3,
            best: true,
            on_interrupt: true,
            on_completed: true,
        }
    }
}

/// Requests checkpoints at intervals of epochs or iterations, of the best key metric, when the run
/// is interrupted, and at its end. The trainer writes them.
///
/// Add it after [`Validation`](crate::Validation): it reads the best metric at the end of an epoch.
/// A non-finite key metric never makes a best checkpoint.
///
/// ```
/// # use hearth_handlers::{Checkpoints, CheckpointsOptions};
/// # use hearth_plugin::testkit::Rehearsal;
/// let options = CheckpointsOptions::default().dir("run/checkpoints").keep_last(1);
/// let mut run = Rehearsal::new(Checkpoints::new(options));
/// run.epochs(2, 1)?;
/// assert!(run.host.checkpoints().len() >= 2, "{:?}", run.host.checkpoints());
/// # Ok::<(), hearth_engine::HandlerError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Checkpoints {
    options: CheckpointsOptions,
    /// The epoch for which a best checkpoint was requested.
    best_saved: Option<u64>,
}

impl Checkpoints {
    /// A handler with these options. [`Checkpoints::default`] writes to the folder `checkpoints`.
    pub fn new(options: CheckpointsOptions) -> Self {
        Self { options, best_saved: None }
    }

    /// Requests a checkpoint; keeps the newest `keep_last` of the same tag.
    fn ask(&self, cx: &mut Context<'_>, tag: &str, keep_last: Option<usize>) -> Result<(), HostError> {
        cx.host.save_checkpoint(CheckpointRequest { dir: self.options.dir.clone(), tag: tag.to_owned(), keep_last })
    }

    /// Whether this epoch has the best key metric, which is finite and not saved yet.
    fn is_new_best(&self, state: &State) -> bool {
        let present = state.key_metric.as_ref().and_then(|name| state.metrics.get(name));
        let finite = [present, state.best_metric.as_ref()].iter().all(|value| value.is_some_and(|v| v.is_finite()));
        self.options.best && finite && state.is_best() && self.best_saved != state.best_epoch
    }
}

impl Handler for Checkpoints {
    fn name(&self) -> &str {
        "checkpoint"
    }

    fn subscriptions(&self) -> Vec<When> {
        let CheckpointsOptions { every_epochs, every_iterations, best, on_interrupt, on_completed, .. } = self.options;
        let mut whens = Vec::new();
        if best {
            whens.push(Event::EpochCompleted.into());
        } else if every_epochs > 0 {
            whens.push(Event::EpochCompleted.every(every_epochs));
        }
        if every_iterations > 0 {
            whens.push(Event::IterationCompleted.every(every_iterations));
        }
        if on_interrupt {
            whens.push(Event::Interrupt.into());
        }
        if best || on_completed {
            whens.push(Event::Completed.into());
        }
        whens
    }

    fn ranks(&self) -> Ranks {
        Ranks::First
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let keep_last = Some(self.options.keep_last).filter(|keep| *keep > 0);
        let every = self.options.every_epochs;
        match event {
            Event::IterationCompleted => self.ask(cx, "iteration", keep_last)?,
            Event::EpochCompleted if every > 0 && cx.state.epoch.is_multiple_of(every) => {
                self.ask(cx, "epoch", keep_last)?;
            }
            Event::Interrupt => self.ask(cx, "interrupted", Some(1))?,
            Event::Completed if self.options.on_completed => self.ask(cx, "final", Some(1))?,
            _ => {}
        }
        // At the end of the run the weights are those of the last epoch: a best metric that a later
        // handler set is saved too.
        if matches!(event, Event::EpochCompleted | Event::Completed) && self.is_new_best(cx.state) {
            self.ask(cx, "best", Some(1))?;
            self.best_saved = cx.state.best_epoch;
        }
        Ok(())
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        Some(self.best_saved.unwrap_or(0).to_le_bytes().to_vec())
    }

    fn load_state(&mut self, state: &[u8]) -> Result<(), HandlerError> {
        let bytes = <[u8; 8]>::try_from(state)
            .map_err(|_| HandlerError::new(format!("the saved state has {} bytes, not 8", state.len())))?;
        self.best_saved = Some(u64::from_le_bytes(bytes)).filter(|epoch| *epoch > 0);
        Ok(())
    }
}

/// A handler whose folder is within the run's.
fn in_run(options: CheckpointsOptions, run: &std::path::Path) -> Result<Checkpoints, Fault> {
    let inside = options.dir.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    if options.dir.as_os_str().is_empty() || !inside {
        let message = format!("checkpoints stay in the run's folder, so `dir` cannot be {:?}", options.dir);
        return Err(Fault::at("dir", message));
    }
    Ok(Checkpoints::new(CheckpointsOptions { dir: run.join(&options.dir), ..options }))
}

handler_entry!(CheckpointsOptions => "Checkpoints", paper: "", about: "Requests checkpoints at intervals of epochs or iterations, of the best key metric, when the run is interrupted, and at its end.", example: "every_epochs = 5\nkeep_last = 1", |options, run| in_run(options, run));
