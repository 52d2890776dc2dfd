//! [`Schedule`].

use hearth_engine::HandlerError;
pub use hearth_registry::component::texts::RateCall as Step;

/// A schedule of the learning rate.
pub trait Schedule: Send + Sync {
    /// Returns the learning rate of a step. The same step must yield the same rate, because resumed runs
    /// start in the middle.
    ///
    /// # Errors
    /// The reason why it cannot compute a rate.
    fn rate(&self, at: Step) -> Result<f64, HandlerError>;
}
