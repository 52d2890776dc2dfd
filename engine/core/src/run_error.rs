//! The end of a run: [`RunEnd`], or a [`RunError`].

use std::fmt;

use crate::error::chain;
use crate::event::Event;
use crate::workflow::BoxError;

/// The way in which a run ended without an error: what [`Engine::run`](crate::Engine::run) returns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunEnd {
    /// All epochs were run.
    Completed,
    /// A handler requested the end; holds its reason.
    Terminated(String),
    /// A pause was requested; holds the reason. The next `run` resumes where this one stopped.
    Interrupted(String),
}

/// The error that ended a run, and where it happened. The text has all causes; to act on one, match
/// on [`kind`](Self::kind).
///
/// ```
/// use hearth_engine::{Engine, Event, RunErrorKind};
/// let mut engine = Engine::new("trainer");
/// engine.on(Event::custom("slack.sent"), |_| Ok(()))?;
/// let error = engine.check_events().unwrap_err();
/// assert!(matches!(error.kind, RunErrorKind::NobodyFires { .. }));
/// assert!(error.to_string().starts_with("trainer, epoch 0, iteration 0: "));
/// # Ok::<(), hearth_engine::RegisterError>(())
/// ```
#[derive(Debug)]
pub struct RunError {
    /// Name of the engine.
    pub engine: String,
    /// The epoch of the error.
    pub epoch: u64,
    /// The iteration of the error.
    pub iteration: u64,
    /// The cause.
    pub kind: RunErrorKind,
}

/// The cause of a run's end.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunErrorKind {
    /// A handler whose policy is to stop the run returned an error.
    Handler {
        /// The handler's name.
        handler: String,
        /// The event of the call.
        event: Event,
        /// The handler's message.
        message: String,
    },
    /// A step of the workflow failed.
    Workflow {
        /// The step.
        task: &'static str,
        /// The cause.
        source: BoxError,
    },
    /// An unregistered event was fired.
    UnknownEvent(Event),
    /// A handler listens to an event that no handler fires.
    NobodyFires {
        /// The handler that listens.
        handler: String,
        /// The event.
        event: Event,
        /// The events that handlers fire.
        known: Vec<String>,
    },
    /// `terminate_epoch` was requested before any batch was requested.
    NoEpochToTerminate {
        /// The handler that made the request.
        handler: String,
        /// The event of the request.
        event: Event,
    },
    /// The data gave no batch, twice in a row.
    NoData,
    /// `run` was called with fewer epochs than were run before, or with 0.
    MaxEpochs {
        /// The value given.
        asked: u64,
    },
    /// A snapshot has the state of a handler that is not registered.
    MissingHandler(String),
    /// A snapshot contradicts itself, or a handler could not restore its part of it.
    Snapshot(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RunError { engine, epoch, iteration, kind } = self;
        write!(f, "{engine}, epoch {epoch}, iteration {iteration}: ")?;
        match kind {
            RunErrorKind::Handler { handler, event, message } => {
                write!(f, "handler `{handler}` failed at {event}: {message}")
            }
            RunErrorKind::Workflow { task, source } => write!(f, "could not {task}: {}", chain(source.as_ref())),
            RunErrorKind::UnknownEvent(event) => {
                write!(f, "the event `{event}` is not registered; call `register_event` before it fires")
            }
            RunErrorKind::NobodyFires { handler, event, known } => {
                write!(f, "handler `{handler}` listens to `{event}`, which no handler of this run fires")?;
                match known.as_slice() {
                    [] => f.write_str("; none fires events of its own"),
                    known => write!(f, "; they fire {}", known.join(", ")),
                }
            }
            RunErrorKind::NoEpochToTerminate { handler, event } => write!(
                f,
                "handler `{handler}` asked for terminate_epoch at {event}, where no batch has been requested yet; \
                 ask for it from the first `get_batch_started` on, or terminate the run"
            ),
            RunErrorKind::NoData => {
                write!(
                    f,
                    "the loader was started again and gave no batch; the dataset may be empty or drop_last too eager"
                )
            }
            RunErrorKind::MaxEpochs { asked: 0 } => write!(f, "max_epochs is 0; give 1 or more"),
            RunErrorKind::MaxEpochs { asked } => {
                write!(f, "max_epochs is {asked}, but {epoch} epochs were run already; give {epoch} or more")
            }
            RunErrorKind::MissingHandler(handler) => write!(
                f,
                "the snapshot holds a state of handler `{handler}`, which is not registered; register it, or call \
                 `restore_without` to drop the state"
            ),
            RunErrorKind::Snapshot(what) => write!(f, "the snapshot cannot be restored: {what}"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            // The text above already holds the whole chain. The source is for programs that match
            // on types.
            RunErrorKind::Workflow { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}

/// Why a handler or an event could not be registered: a text that names the handler or the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterError(pub(crate) String);

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RegisterError {}
