//! [`Schedule`].

use hearth_engine::HandlerError;
pub use hearth_registry::component::texts::RateCall as Step;

/// A schedule of the learning rate.
///
/// ```
/// use hearth_plugin::HandlerError;
/// use hearth_plugin::component::{Schedule, Step};
///
/// /// Halves the rate each time this number of steps is done.
/// struct Halves(u64);
///
/// impl Schedule for Halves {
///     fn rate(&self, at: Step) -> Result<f64, HandlerError> {
///         Ok(at.base * 0.5_f64.powf((at.step / self.0) as f64))
///     }
/// }
///
/// assert_eq!(Halves(10).rate(Step { step: 9, steps: None, base: 0.1 })?, 0.1);
/// assert_eq!(Halves(10).rate(Step { step: 10, steps: None, base: 0.1 })?, 0.05);
/// # Ok::<(), HandlerError>(())
/// ```
pub trait Schedule: Send + Sync {
    /// Returns the learning rate of a step, 0 or more. The same step must yield the same rate, because
    /// resumed runs start in the middle.
    ///
    /// # Errors
    /// The reason why it cannot compute a rate.
    fn rate(&self, at: Step) -> Result<f64, HandlerError>;
}
