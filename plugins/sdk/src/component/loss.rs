//! [`Loss`].

use hearth_engine::HandlerError;

use super::Array;

/// A loss with its own gradient.
pub trait Loss: Send + Sync {
    /// Returns the mean loss of a batch, and its gradient with respect to `pred`, in the shape of `pred`.
    /// Both are `[N, C, X, Y, Z]`: the network's output, and the label as the recipe's losses get it.
    ///
    /// # Errors
    /// The problem of the input.
    fn loss(&self, pred: Array<'_>, label: Array<'_>) -> Result<Valued, HandlerError>;
}

/// A loss and its gradient.
#[derive(Clone, Debug, PartialEq)]
pub struct Valued {
    /// The mean over the batch.
    pub loss: f64,
    /// The gradient of `loss` with respect to the prediction.
    pub gradient: Array<'static>,
}
