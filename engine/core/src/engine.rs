//! The event machine (skeleton: signatures are fixed, bodies are being written).
#![allow(missing_docs, unused)]
use std::fmt;
use crate::*;

pub struct Engine {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandlerId(u64);
#[derive(Clone, Debug)]
pub struct HandlerTimes { pub name: String, pub calls: u64, pub seconds: f64 }
#[derive(Debug)]
pub struct RegisterError(String);
/// The error that ended a run.
#[derive(Debug)]
pub struct RunError(String);
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RunEnd { Completed, Terminated(String), Interrupted(String) }
impl fmt::Display for RegisterError { fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.0) } }
impl std::error::Error for RegisterError {}
impl fmt::Display for RunError { fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.0) } }
impl std::error::Error for RunError {}

impl Engine {
    /// An engine of this name (`trainer`, `validation`).
    pub fn new(name: impl Into<String>) -> Self { todo!() }
    /// Calls a closure for an event: `engine.on(Event::EpochCompleted.every(2), |cx| Ok(()))?`.
    pub fn on<F>(&mut self, when: impl Into<When>, f: F) -> Result<HandlerId, RegisterError>
    where F: FnMut(&mut Context<'_>) -> Result<(), HandlerError> + Send + 'static { todo!() }
    pub fn add(&mut self, handler: impl Handler + 'static) -> Result<HandlerId, RegisterError> { todo!() }
    pub fn add_boxed(&mut self, handler: Box<dyn Handler>) -> Result<HandlerId, RegisterError> { todo!() }
    pub fn remove(&mut self, id: HandlerId) -> Option<Box<dyn Handler>> { todo!() }
    /// Makes an event of one's own known, counted by `counter` for filters.
    pub fn register_event(&mut self, name: &str, counter: Option<Counter>) -> Result<Event, RegisterError> { todo!() }
    pub fn state(&self) -> &State { todo!() }
    pub fn state_mut(&mut self) -> &mut State { todo!() }
    /// Names the metric that decides what is best.
    pub fn set_key_metric(&mut self, name: &str, better: Better) { todo!() }
    /// Fires an event to the handlers. For workflows, and for a user's own events.
    pub fn fire(&mut self, event: Event, workflow: &mut dyn Workflow) -> Result<(), RunError> { todo!() }
    /// Runs until `max_epochs`, or goes on where an interrupt or a checkpoint left it.
    pub fn run(&mut self, workflow: &mut dyn Workflow, max_epochs: u64) -> Result<RunEnd, RunError> { todo!() }
    /// Runs exactly one epoch, numbered `epoch` (an evaluator).
    pub fn run_epoch(&mut self, workflow: &mut dyn Workflow, epoch: u64) -> Result<RunEnd, RunError> { todo!() }
    pub fn snapshot(&self) -> Snapshot { todo!() }
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<(), RunError> { todo!() }
    /// A flag that another thread (Ctrl-C) may raise: the run interrupts when the present iteration is complete.
    pub fn interrupt_flag(&self) -> std::sync::Arc<std::sync::atomic::AtomicBool> { todo!() }
    /// Time spent in each handler, in registration order; for the run summary.
    pub fn handler_times(&self) -> Vec<HandlerTimes> { todo!() }
    /// Time spent in all handlers of each event.
    pub fn event_times(&self) -> std::collections::BTreeMap<String, f64> { todo!() }
}
