//! The engine: it drives a run and fires events; handlers listen.
//!
//! # From a loop to an engine
//!
//! Training is a loop in a loop:
//!
//! ```text
//! for epoch in 1..=max_epochs {
//!     for batch in loader { loss = network.step(batch) }
//! }
//! ```
//!
//! Then a progress bar is needed, a checkpoint at the end of each epoch, a decaying learning rate,
//! a stop when the loss becomes NaN, a pause on Ctrl-C. Each adds a few lines in several parts of
//! the loop, and after a year no one dares to change it. None of this code depends on how a batch
//! is learned from; it only has to be called at the right moment. So the moments get names,
//! [`Event`]s, and code subscribes to the events it needs:
//!
//! ```text
//! engine.on(Event::EpochCompleted.every(2), |cx| ...)
//! ```
//!
//! **A handler must know how far the run is.** It receives the [`State`]: epoch, iteration,
//! metrics, the best metric. The whole state serializes, because a run is resumed from it.
//!
//! **A handler must be able to act on the run:** stop it, set the learning rate, read a prediction,
//! write a checkpoint. Only the trainer can do that, and a handler must not depend on a particular
//! trainer. So it receives a [`Host`], the list of possible requests; a trainer that does not
//! support one returns an error. State and host together are the [`Context`].
//!
//! **Some handlers have state of their own**, kept between calls and in checkpoints: they implement
//! [`Handler`]. A closure is a handler without saved state.
//!
//! **Who runs the loop?** If each trainer had its own loop, each would have its own bugs in
//! resuming mid-epoch. So the [`Engine`] runs it, and a trainer implements only the steps: "begin a
//! pass over the data", "fetch a batch", "do an iteration". That is a [`Workflow`]. The engine
//! knows no tensor library: this crate depends on `serde` and `tracing` alone, so that a plugin
//! builds against it in seconds and can pin it for years.
//!
//! # A whole workflow
//!
//! ```
//! use hearth_engine::{
//!     BoxError, Engine, Event, Host, HostError, Level, RunEnd, State, Workflow, not_offered, trace,
//! };
//!
//! /// Finds the mean of some numbers by gradient descent.
//! struct Descent { data: Vec<f64>, next: usize, mean: f64, rate: f64, loss: f64 }
//!
//! impl Host for Descent {
//!     fn output(&mut self, _: &str) -> Result<f64, HostError> { Ok(self.loss) }
//!     fn learning_rate(&self) -> Option<f64> { Some(self.rate) }
//!     fn set_learning_rate(&mut self, rate: f64) -> Result<(), HostError> { self.rate = rate; Ok(()) }
//!     fn log(&mut self, level: Level, message: &str) { trace(level, message); }
//!     // What the engine carries out itself, and what this trainer does not support.
//!     not_offered! {
//!         requests, names, cases, numbers, texts, layer_statistics, run, tensor, put_tensor, combine
//!     }
//! }
//!
//! impl Workflow for Descent {
//!     fn restart(&mut self, _: &State, skip: u64) -> Result<Option<u64>, BoxError> {
//!         self.next = skip as usize;
//!         Ok(Some(self.data.len() as u64))
//!     }
//!     fn fetch(&mut self, _: &State) -> Result<bool, BoxError> {
//!         self.next += 1;
//!         Ok(self.next <= self.data.len())
//!     }
//!     fn iterate(&mut self, engine: &mut Engine) -> Result<(), BoxError> {
//!         let error = self.mean - self.data[self.next - 1];
//!         self.loss = error * error;
//!         engine.fire(Event::LossCompleted, self)?;
//!         self.mean -= self.rate * 2.0 * error;
//!         Ok(())
//!     }
//! }
//!
//! let mut engine = Engine::new("trainer");
//! engine.on(Event::EpochCompleted.every(10), |cx| {
//!     let rate = cx.host.learning_rate().unwrap_or(0.0);
//!     Ok(cx.host.set_learning_rate(rate / 2.0)?)
//! })?;
//! engine.on(Event::LossCompleted, |cx| {
//!     if cx.host.output("loss")?.is_nan() { cx.host.terminate("the loss is not a number"); }
//!     Ok(())
//! })?;
//! let mut descent = Descent { data: vec![1.0, 2.0, 6.0], next: 0, mean: 0.0, rate: 0.1, loss: 0.0 };
//! assert_eq!(engine.run(&mut descent, 100)?, RunEnd::Completed);
//! assert!((descent.mean - 3.0).abs() < 0.05);
//! assert_eq!(engine.state().iteration, 300);
//! # Ok::<(), BoxError>(())
//! ```
//!
//! # What happens when
//!
//! | Event | Counters seen | |
//! |---|---|---|
//! | `Started` | epoch 0 | a checkpoint is loaded after its handlers |
//! | `EpochStarted` | epoch e | after [`Workflow::epoch_started`] |
//! | `GetBatchStarted` | iteration i | |
//! | `DataLoaderStopIteration` | | only when the pass was exhausted; it is begun again and fetched from |
//! | `GetBatchCompleted` | i | |
//! | `IterationStarted` | i + 1 | |
//! | `ForwardCompleted` ... `ModelCompleted` | i + 1 | fired by the workflow in [`Workflow::iterate`] |
//! | `IterationCompleted` | i + 1 | |
//! | `EpochCompleted` | e | after [`Workflow::epoch_completed`] |
//! | `Completed` | e | |
//! | `Attached`, events of handlers | | after the handlers of the event at which files were attached or an event was fired: [`Host::attach`], [`Host::fire`] |
//! | `Timer` | | for one handler, after the time of [`Host::call_after`] |
//!
//! The order, the filters and the effect of a request are those of pytorch-ignite; the tests replay
//! its traces.
//!
//! - [`Host::terminate`]: checked when the event's handlers have returned (inside `iterate`: when
//!   the iteration is complete). `Terminate` fires, then `Completed`; `EpochCompleted` does not. A
//!   further `run` continues with the next epoch.
//! - [`Host::terminate_epoch`]: `TerminateSingleEpoch`, then `EpochCompleted`, then the next epoch
//!   on a new pass.
//! - [`Host::interrupt`], or the flag of [`Engine::interrupt_flag`]: `Interrupt`, and `run`
//!   returns. The next `run` resumes there; see [`Engine::run`] for resuming in another process.
//! - An error of the workflow, or of a handler whose policy is to stop the run: `ExceptionRaised`
//!   fires once, each of its handlers is called once, and `run` returns the error. Checkpoints that
//!   were requested and not yet begun are dropped. (ignite swallows an exception when a handler
//!   listens to it, or calls the handlers twice. This engine swallows nothing.)
//! - A checkpoint is written when all handlers of the event have run; within an iteration, when the
//!   iteration is complete. A checkpoint therefore always lies between two iterations, and a run
//!   resumed from it is bit-identical.
//!
//! Each epoch, iteration and handler call is a `tracing` span with that name.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod closure;
mod dispatch;
mod engine;
mod error;
mod event;
mod followed;
mod handler;
mod host;
mod not_offered;
mod run;
mod run_error;
mod saves;
mod snapshot;
mod state;
mod store;
mod when;
mod workflow;

pub use closure::handler_fn;
pub use engine::{Engine, HandlerId, HandlerTimes, Remover};
pub use error::{HandlerError, HostError};
pub use event::{Counter, Event};
pub use handler::{Context, Handler, OnError, Ranks};
pub use host::{
    CheckpointRequest, Combine, DType, Host, HostTensor, LayerStatistics, LayerValues, Level, NOTICE_TARGET, NamesOf,
    trace,
};
pub use run_error::{RegisterError, RunEnd, RunError, RunErrorKind};
pub use state::{Better, Metrics, Pass, Scalar, State, Termination};
pub use store::{Attach, Attachment, Store};
pub use when::{Accept, Filter, When, WhenError};
pub use workflow::{Ask, BoxError, Snapshot, Wants, Workflow, Written};
