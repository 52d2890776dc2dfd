//! The end of a run, which `--resume` does not continue.

use hearth_engine::{State, Termination};
use hearth_recipe::Outcome;
use hearth_recipe::recipe::PluginChanges;
use hearth_registry::{Node, counted};
use hearth_train::{RunFolder, checkpoint};

use crate::plan::Plan;
use crate::record::{Record, run_id};

/// The end of a run, which resuming does not continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All its epochs are trained.
    Completed {
        /// The number of epochs.
        epochs: u64,
    },
    /// A handler ended it.
    Terminated {
        /// The epoch of the end.
        epoch: u64,
        /// The handler and its reason.
        end: Termination,
    },
}

impl Ended {
    /// The end of the run in a folder, unless the plan or the changes continue it.
    ///
    /// # Errors
    /// A checkpoint or a record that cannot be read.
    pub fn of_run(plan: &Plan, folder: &RunFolder, changes: &PluginChanges) -> Outcome<Option<Self>> {
        if checkpoint::list(&folder.checkpoints())?.is_empty() {
            return Ok(None);
        }
        let newest = checkpoint::newest_of(&folder.checkpoints(), run_id(folder)?.as_deref())?;
        let before = Record::read(folder)?;
        Ok(newest.state()?.and_then(|state| Self::of(plan, state, before.as_ref(), changes)))
    }

    /// The end of a run with this state in its newest checkpoint, unless the plan or the changes continue it.
    pub(crate) fn of(plan: &Plan, state: State, before: Option<&Record>, changes: &PluginChanges) -> Option<Self> {
        let (epoch, asked) = (state.epoch, plan.recipe.training.epochs);
        if !changes.without.is_empty() {
            // Whether the handler that ended it is left out, is known once the plugins are loaded.
            return None;
        }
        match state.terminated {
            Some(end) if asked > end.max_epochs || before.is_some_and(|before| before.stops_otherwise(plan)) => None,
            Some(end) => Some(Self::Terminated { epoch, end }),
            None => (state.finished && epoch >= asked).then_some(Self::Completed { epochs: epoch }),
        }
    }

    /// How the run in a folder has ended, and what continues it.
    pub fn lines(&self, plan: &Plan, folder: &RunFolder) -> [String; 2] {
        let root = folder.root().display();
        match self {
            Self::Completed { epochs } => [
                format!("{root} is complete, nothing is done: {} are trained", counted(*epochs as usize, "epoch")),
                format!("to continue it: --epochs N, above {epochs}"),
            ],
            Self::Terminated { epoch, end: Termination { by, why, max_epochs, .. } } => [
                format!("{root} has ended early in epoch {epoch} of {max_epochs}, nothing is done: {by}: {why}"),
                format!("to continue it: {}--epochs N, above {max_epochs}", otherwise(plan, by)),
            ],
        }
    }
}

/// A further way to continue a run that this handler has ended.
fn otherwise(plan: &Plan, by: &str) -> String {
    let stops = |entry: &&Node| entry.text("name") == Some("EarlyStop");
    if plan.recipe.plugins.iter().any(|plugin| plugin.called() == by) {
        format!("--without {by}; or ")
    } else if by == "early_stop" && plan.recipe.handlers.iter().filter(stops).count() == 1 {
        // More epochs alone end after the next validation that is no better.
        "a larger --set handlers.EarlyStop.patience=N; or ".to_owned()
    } else {
        String::new()
    }
}
