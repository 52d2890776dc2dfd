//! The engine: it walks through a run and says what happens; handlers listen.
mod engine;
mod error;
mod event;
mod handler;
mod host;
mod state;
mod when;
mod workflow;

pub use engine::{Engine, HandlerId, HandlerTimes, RegisterError, RunError, RunEnd};
pub use error::{HandlerError, HostError};
pub use event::{Counter, Event};
pub use handler::{Context, Handler, OnError, Ranks};
pub use host::{CheckpointRequest, Combine, DType, Host, HostTensor, Level};
pub use state::{Better, Metrics, State};
pub use when::{Accept, Filter, When, WhenError};
pub use workflow::{BoxError, Snapshot, Workflow};
