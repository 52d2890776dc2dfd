//! From network outputs to predictions, on batches `[b, c, x, y, z]`.

mod activations;
mod as_discrete;

pub use activations::Activations;
pub use as_discrete::{AsDiscrete, Rounding};

/// Post-processing that cannot be done as asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PostError {
    /// Options that do not go together.
    #[error("{transform}: {reason}")]
    Option {
        /// The transform.
        transform: &'static str,
        /// What is wrong.
        reason: String,
    },
}
