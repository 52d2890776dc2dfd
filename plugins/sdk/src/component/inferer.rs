//! [`Inferer`].

use hearth_engine::HandlerError;

use super::{Array, Network};

/// A way of running the network over a whole image.
pub trait Inferer: Send + Sync {
    /// Returns the output `[N, C, X, Y, Z]` for an image `[N, C, X, Y, Z]`. `network` maps a window of the
    /// image to its output; all windows must have a size that the network supports.
    ///
    /// # Errors
    /// The problem of the image; an error of `network` is passed on with `HandlerError::new`.
    fn infer(&self, image: Array<'_>, network: &mut Network<'_>) -> Result<Array<'static>, HandlerError>;
}
