//! The basis of all pictures: a [`Canvas`] with text and PNG export, and [`colours`] that are
//! distinguishable with colour blindness. The content is drawn elsewhere: `hearth-apps` draws
//! slices, curves and bars, `hearth-handlers` the images for TensorBoard.
//!
//! ```
//! use hearth_pictures::{Canvas, colours, text};
//!
//! let mut canvas = Canvas::new(120, 40, colours::BACKGROUND);
//! canvas.text(8, 8, text::BODY, colours::TEXT, "spleen");
//! assert_eq!(&canvas.png()?[1..4], b"PNG");
//! # Ok::<(), png::EncodingError>(())
//! ```

#![forbid(unsafe_code)]

pub mod axis;
mod canvas;
pub mod colours;
pub mod text;

pub use canvas::{Canvas, Rgb};
pub use png::EncodingError;
