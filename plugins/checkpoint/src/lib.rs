//! The plugin `checkpoint`: asks for checkpoints every so many epochs or iterations, of the best key metric, when the run is
//! interrupted, and at its end. The trainer writes them.
//!
//! Place it after `validation`: it takes the best metric as it finds it at the end of an epoch. A key metric that is
//! not a finite number never makes a best checkpoint.

use std::path::PathBuf;

use hearth_plugin::{
    CheckpointRequest, Context, Event, Handler, HandlerError, HostError, Ranks, State, When, export_plugin, options,
};

options! {
    /// Options of the plugin.
    pub struct Options {
        /// Folder of the checkpoints, within the run's folder.
        dir: PathBuf = "checkpoints".into(),
        /// A checkpoint every so many epochs; 0 for none.
        every_epochs: u64 = 1,
        /// A checkpoint every so many iterations; 0 for none.
        every_iterations: u64 = 0,
        /// The newest so many of them stay; 0 keeps all.
        keep_last: usize = 3,
        /// A checkpoint of the best key metric.
        best: bool = true,
        /// A checkpoint when the run is interrupted.
        on_interrupt: bool = true,
        /// A checkpoint when the run ends.
        on_completed: bool = true,
    }
}

/// Asks for checkpoints.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    options: Options,
    /// The epoch whose best checkpoint was asked for.
    best_saved: Option<u64>,
}

impl Checkpoint {
    /// The handler with these options.
    pub fn new(options: Options) -> Self {
        Self { options, best_saved: None }
    }

    /// Asks for a checkpoint; of the same tag, `keep_last` stay.
    fn ask(&self, cx: &mut Context<'_>, tag: &str, keep_last: Option<usize>) -> Result<(), HostError> {
        cx.host.save_checkpoint(CheckpointRequest { dir: self.options.dir.clone(), tag: tag.to_owned(), keep_last })
    }

    /// Whether this epoch gave the best key metric, a finite one, that is not saved yet.
    fn is_new_best(&self, state: &State) -> bool {
        let present = state.key_metric.as_ref().and_then(|name| state.metrics.get(name));
        let finite = [present, state.best_metric.as_ref()].iter().all(|value| value.is_some_and(|v| v.is_finite()));
        self.options.best && finite && state.is_best() && self.best_saved != state.best_epoch
    }
}

impl Handler for Checkpoint {
    fn name(&self) -> &str {
        "checkpoint"
    }

    fn subscriptions(&self) -> Vec<When> {
        let Options { every_epochs, every_iterations, best, on_interrupt, on_completed, .. } = self.options;
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
        // At the end of the run the weights are those of the last epoch: a best one that a later handler found is kept too.
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

export_plugin!("checkpoint", Options, Checkpoint::new);
