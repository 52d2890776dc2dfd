//! [`Inferer`].

use hearth_engine::HandlerError;

use super::{Array, Network};

/// A way of running the network over a whole image.
///
/// ```
/// use hearth_plugin::HandlerError;
/// use hearth_plugin::component::{Array, Inferer, Network};
///
/// /// Runs the network once, and limits its output to 0 and above.
/// struct Positive;
///
/// impl Inferer for Positive {
///     fn infer(&self, image: Array<'_>, network: &mut Network<'_>) -> Result<Array<'static>, HandlerError> {
///         let mut output = network(image).map_err(HandlerError::new)?;
///         output.values.to_mut().iter_mut().for_each(|value| *value = value.max(0.0));
///         Ok(output)
///     }
/// }
///
/// let image = Array::new(vec![1, 1, 1, 1, 2], vec![-1.0, 2.0]).unwrap();
/// let output = Positive.infer(image, &mut |window| {
///     let twice = window.values.iter().map(|value| value * 2.0).collect::<Vec<f32>>();
///     Array::new(window.shape, twice)
/// })?;
/// assert_eq!(*output.values, [0.0, 4.0]);
/// # Ok::<(), HandlerError>(())
/// ```
pub trait Inferer: Send + Sync {
    /// Returns the output `[N, C, X, Y, Z]` for an image `[N, C, X, Y, Z]`. `network` maps a window of the
    /// image to its output; all windows must have a size that the network supports.
    ///
    /// # Errors
    /// The problem of the image; an error of `network` is passed on with `HandlerError::new`.
    fn infer(&self, image: Array<'_>, network: &mut Network<'_>) -> Result<Array<'static>, HandlerError>;
}
