//! [`Loss`].

use hearth_engine::HandlerError;

use super::Array;

/// A loss with its own gradient.
///
/// ```
/// use hearth_plugin::HandlerError;
/// use hearth_plugin::component::{Array, Loss, Valued};
///
/// /// The mean squared error.
/// struct SquaredError;
///
/// impl Loss for SquaredError {
///     fn loss(&self, pred: Array<'_>, label: Array<'_>) -> Result<Valued, HandlerError> {
///         if pred.shape != label.shape {
///             return Err(HandlerError::new("prediction and label differ in shape"));
///         }
///         let count = pred.values.len() as f32;
///         let errors = pred.values.iter().zip(&*label.values).map(|(p, l)| p - l).collect::<Vec<f32>>();
///         let loss = f64::from(errors.iter().map(|error| error * error).sum::<f32>() / count);
///         let gradient = errors.iter().map(|error| 2.0 * error / count).collect::<Vec<f32>>();
///         let gradient = Array { values: gradient.into(), shape: pred.shape, affine: pred.affine };
///         Ok(Valued { loss, gradient })
///     }
/// }
///
/// let array = |value: f32| Array::new(vec![1, 1, 1, 1, 2], vec![value; 2]).unwrap();
/// let valued = SquaredError.loss(array(3.0), array(1.0))?;
/// assert_eq!(valued.loss, 4.0);
/// assert_eq!(*valued.gradient.values, [2.0, 2.0]);
/// # Ok::<(), HandlerError>(())
/// ```
pub trait Loss: Send + Sync {
    /// Returns the mean loss of a batch, and its gradient with respect to `pred`, in the shape of `pred`.
    /// `pred` and `label` are `[N, C, X, Y, Z]`: the network's output, and the label as the recipe's losses
    /// get it.
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
