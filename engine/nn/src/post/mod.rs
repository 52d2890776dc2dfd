//! Post-processing of network outputs to predictions, on batches `[b, c, x, y, z]`.

mod activations;
mod as_discrete;

pub use activations::Activations;
pub use as_discrete::{AsDiscrete, Rounding};

/// Converts an axis of an item, from 0 for its channels, to an axis of a batch; negative ones count
/// from the end. A last axis of length 1 is not counted: the item is a 2-D image.
fn axis(transform: &'static str, dim: i64, shape: [usize; 5]) -> Result<usize, PostError> {
    let rank = if shape[4] == 1 { 3 } else { 4 };
    let at = if dim < 0 { dim + rank } else { dim };
    if (0..rank).contains(&at) {
        return Ok(at as usize + 1);
    }
    Err(PostError::Option { transform, reason: format!("there is no dim {dim} in an item of {rank} axes") })
}

/// An error of post-processing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PostError {
    /// Contradictory options.
    #[error("{transform}: {reason}")]
    Option {
        /// Name of the transform.
        transform: &'static str,
        /// Description of the problem.
        reason: String,
    },
}
