//! The interface of evaluators that a trainer runs as `validation`: [`Evaluate`].

use hearth_engine::{Engine, Metrics, RunError};

use crate::evaluation::evaluator::CaseRow;

/// An evaluator that a trainer runs on its current weights.
pub trait Evaluate<N>: Send {
    /// Runs one pass with this network, in evaluation mode and outside autodiff; `epoch` is the
    /// trainer's.
    ///
    /// # Errors
    /// Any error that ended the pass early.
    fn evaluate(&mut self, network: N, epoch: u64) -> Result<Metrics, RunError>;

    /// The evaluator's engine.
    fn engine(&self) -> &Engine;

    /// The evaluator's engine, to add handlers to.
    fn engine_mut(&mut self) -> &mut Engine;

    /// The key metric's values for each case of the last pass.
    fn rows(&self) -> &[CaseRow];
}
