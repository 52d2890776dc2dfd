//! The program that the engine drives: [`Workflow`], and the engine's part of a checkpoint:
//! [`Snapshot`].

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
/// engine owns the order of events. The [crate's documentation](crate#a-whole-workflow) has an
/// example.
///
/// An error of any method ends the run, with `ExceptionRaised`; errors about checkpoints are those
/// of the handler that made the request.
pub trait Workflow: Host {
    /// Number of iterations of an epoch, if it is known before the first pass begins, so that the
    /// handlers of `Started` see it. Optional: by default the engine uses the length that `restart`
    /// returns.
    fn epoch_length(&self) -> Option<u64> {
        None
    }

    /// Starts pass `state.pass.number` over the data (equal to `state.epoch` if an epoch is a pass)
    /// and skips its first `skip` batches, for a run that is resumed in mid-epoch. `epoch_started`
    /// is not called in that case. Returns the number of batches of a whole pass, including skipped
    /// ones, if it is known.
    ///
    /// # Errors
    /// If the pass cannot be started.
    fn restart(&mut self, state: &State, skip: u64) -> Result<Option<u64>, BoxError>;

    /// Fetches the next batch; returns `false` when the pass is over.
    ///
    /// # Errors
    /// If the batch cannot be made: a file cannot be read, a transform fails.
    fn fetch(&mut self, state: &State) -> Result<bool, BoxError>;

    /// Does one iteration on the fetched batch and fires the events within it:
    /// `engine.fire(Event::ForwardCompleted, self)?`.
    ///
    /// # Errors
    /// If the step fails. An error of [`Engine::fire`] is passed on as it is.
    fn iterate(&mut self, engine: &mut Engine) -> Result<(), BoxError>;

    /// Called at the start of an epoch, before the handlers of `EpochStarted` (metrics are reset
    /// here).
    ///
    /// # Errors
    /// If the epoch cannot be started.
    fn epoch_started(&mut self, state: &mut State) -> Result<(), BoxError> {
        let _ = state;
        Ok(())
    }

    /// Called at the end of an epoch, before the handlers of `EpochCompleted` (metrics are computed
    /// here and recorded with `State::observe`).
    ///
    /// # Errors
    /// If the metrics cannot be computed.
    fn epoch_completed(&mut self, state: &mut State) -> Result<(), BoxError> {
        let _ = state;
        Ok(())
    }

    /// Combines the requests of this process's handlers with those of the other processes (see
    /// `state.world_size`). Every process gets the same answer. The engine calls it after
    /// `Started`, `EpochStarted`, `IterationCompleted` and `EpochCompleted`, where all processes
    /// are at the same place; requests made at other events wait until then. The default returns the
    /// requests of this process.
    ///
    /// # Errors
    /// If the other processes cannot be reached.
    fn agree(&mut self, state: &State, wants: Wants) -> Result<Wants, BoxError> {
        let _ = state;
        Ok(wants)
    }

    /// Writes a checkpoint that holds this snapshot and the current state of the workflow. Writing
    /// may continue in the background ([`Written::Begun`]).
    ///
    /// # Errors
    /// If it cannot be written; by default always.
    fn write_checkpoint(&mut self, request: &CheckpointRequest, snapshot: &Snapshot) -> Result<Written, HostError> {
        let _ = (request, snapshot);
        Err(HostError::not_offered("save_checkpoint"))
    }

    /// The folder of the oldest checkpoint that was begun and not yet reported, or the reason why
    /// it could not be written; `None` while it is being written, unless `wait` is set.
    ///
    /// The engine calls it after each event while a checkpoint is being written. It waits for all
    /// of them before it reads a checkpoint and before a run ends.
    ///
    /// # Errors
    /// If that checkpoint could not be written.
    fn checkpoint_written(&mut self, wait: bool) -> Option<Result<PathBuf, HostError>> {
        let _ = wait;
        None
    }

    /// Restores the newest complete checkpoint in `dir` and returns the engine's part.
    ///
    /// # Errors
    /// If there is none, or it does not fit; by default always.
    fn read_checkpoint(&mut self, dir: &Path) -> Result<Snapshot, HostError> {
        let _ = dir;
        Err(HostError::not_offered("load_checkpoint"))
    }
}

/// The handlers' requests about the course of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wants {
    /// The run ends.
    pub terminate: Option<Ask>,
    /// The epoch ends.
    pub terminate_epoch: Option<Ask>,
    /// The run pauses here and can be resumed.
    pub interrupt: Option<Ask>,
}

/// A request, and the handler that made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The handler's name.
    pub by: String,
    /// The reason.
    pub why: String,
}

/// The progress of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The checkpoint is on disk, in this folder.
    Done(PathBuf),
    /// The content is fixed and is being written: [`Workflow::checkpoint_written`] reports the
    /// result.
    Begun,
}

/// The engine's part of a checkpoint; it serializes. [`Engine::snapshot`] makes it,
/// [`Engine::restore`] resumes from it.
///
/// ```
/// use hearth_engine::Engine;
/// let mut engine = Engine::new("trainer");
/// engine.state_mut().seed = 7;
/// let snapshot = engine.snapshot();
/// let mut other = Engine::new("trainer");
/// other.restore(&snapshot)?;
/// assert_eq!(other.state().seed, 7);
/// # Ok::<(), hearth_engine::RunError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Counters, metrics, best value.
    pub state: State,
    /// The saved state of each handler, by name (`name#2` for the second of the same name).
    pub handlers: BTreeMap<String, Vec<u8>>,
    /// The values that handlers keep under keys ([`Host::remember`]), by handler name.
    #[serde(default)]
    pub store: BTreeMap<String, Store>,
}
