//! The engine: it walks through a run and says what happens; handlers listen.
mod dispatch;
mod engine;
mod error;
mod event;
mod handler;
mod host;
mod run;
mod run_error;
mod snapshot;
mod state;
mod when;
mod workflow;

pub use engine::{Engine, HandlerId, HandlerTimes, Remover};
pub use error::{HandlerError, HostError};
pub use event::{Counter, Event};
pub use handler::{Context, Handler, OnError, Ranks};
pub use host::{CheckpointRequest, Combine, DType, Host, HostTensor, Level};
pub use run_error::{RegisterError, RunEnd, RunError, RunErrorKind};
pub use state::{Better, Metrics, Pass, Scalar, State};
pub use when::{Accept, Filter, When, WhenError};
pub use workflow::{BoxError, Snapshot, Workflow};
