//! What the engine drives: [`Workflow`], and what a checkpoint holds of the engine: [`Snapshot`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::error::HostError;
use crate::host::{CheckpointRequest, Host};
use crate::state::State;
use crate::store::Store;

/// Any error of a workflow.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A trainer or evaluator: it owns the network and the data, and does one iteration at a time. The
/// engine owns the order of events.
pub trait Workflow: Host {
    /// Iterations of an epoch, where they are known before the first pass is begun, so that the
    /// handlers of `Started` see them. Optional: by default the engine uses the length that
    /// `restart` returns.
    fn epoch_length(&self) -> Option<u64> {
        None
    }

    /// Starts pass `state.pass.number` over the data (the same as `state.epoch` where an epoch is a
    /// pass) and skips its first `skip` batches, for a run that is resumed in mid-epoch.
    /// `epoch_started` is not called in that case. Returns the number of batches of a whole pass,
    /// including skipped ones, where that is known.
    fn restart(&mut self, state: &State, skip: u64) -> Result<Option<u64>, BoxError>;

    /// Fetches the next batch; `false` when the pass is over.
    fn fetch(&mut self, state: &State) -> Result<bool, BoxError>;

    /// Does one iteration on the fetched batch and fires the events within it:
    /// `engine.fire(Event::ForwardCompleted, self)?`.
    fn iterate(&mut self, engine: &mut Engine) -> Result<(), BoxError>;

    /// Called at the start of an epoch, before the handlers of `EpochStarted` (metrics are reset
    /// here).
    fn epoch_started(&mut self, state: &mut State) -> Result<(), BoxError> {
        let _ = state;
        Ok(())
    }

    /// Called at the end of an epoch, before the handlers of `EpochCompleted` (metrics are computed
    /// here and recorded with `State::observe`).
    fn epoch_completed(&mut self, state: &mut State) -> Result<(), BoxError> {
        let _ = state;
        Ok(())
    }

    /// In a run of several processes (`state.world_size`): what all of them do, from what handlers
    /// of this one want. Every process gets the same answer. The engine asks after `Started`,
    /// `EpochStarted`, `IterationCompleted` and `EpochCompleted`, where all processes are at the
    /// same place; what handlers of other events want waits until then.
    fn agree(&mut self, state: &State, wants: Wants) -> Result<Wants, BoxError> {
        let _ = state;
        Ok(wants)
    }

    /// Writes a checkpoint that holds this snapshot and the current state of the workflow. Writing
    /// may continue in the background ([`Written::Begun`]).
    fn write_checkpoint(&mut self, request: &CheckpointRequest, snapshot: &Snapshot) -> Result<Written, HostError> {
        let _ = (request, snapshot);
        Err(HostError::not_offered("save_checkpoint"))
    }

    /// The folder of the oldest begun checkpoint that was not reported yet, or why it could not be
    /// written; `None` while it is being written, unless `wait` is set.
    ///
    /// The engine asks after each event while one is being written. It waits for all of them before
    /// it reads a checkpoint and before a run ends.
    fn checkpoint_written(&mut self, wait: bool) -> Option<Result<PathBuf, HostError>> {
        let _ = wait;
        None
    }

    /// Restores the newest complete checkpoint in `dir` and returns the engine's part.
    fn read_checkpoint(&mut self, dir: &Path) -> Result<Snapshot, HostError> {
        let _ = dir;
        Err(HostError::not_offered("load_checkpoint"))
    }
}

/// What handlers want to become of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wants {
    /// It ends.
    pub terminate: Option<Ask>,
    /// The epoch ends.
    pub terminate_epoch: Option<Ask>,
    /// It stops here, and is to be resumed.
    pub interrupt: Option<Ask>,
}

/// A request, and who made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The handler.
    pub by: String,
    /// Its reason.
    pub why: String,
}

/// The progress of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is on disk, in this folder.
    Done(PathBuf),
    /// Its content is fixed and is being written: [`Workflow::checkpoint_written`] reports the
    /// result.
    Begun,
}

/// The engine's part of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Counters, metrics, best value.
    pub state: State,
    /// What each handler saved, by name (`name#2` for the second of the same name).
    pub handlers: BTreeMap<String, Vec<u8>>,
    /// What handlers keep under keys ([`Host::remember`]), by their names.
    #[serde(default)]
    pub store: BTreeMap<String, Store>,
}
