//! Medical images: [`Image`], a tensor with its position in the world, and operations on its grid.
//!
//! [`affine`] and [`orientation`] contain the geometry, [`spatial`] the operations: each updates
//! the affine, is recorded in the image's history, and can be inverted. [`nifti::Header`] is the
//! file header that an image carries from reading to writing.
//!
//! ```
//! use hearth_image::spatial::{GridSampling, resample_to};
//! use hearth_image::{Image, affine, host_device};
//!
//! let image = Image::from_values(vec![1.0; 64], [1, 4, 4, 4], affine::IDENTITY, &host_device());
//! let mut coarse = affine::IDENTITY; // voxels of 2 mm along the first axis
//! coarse[0][0] = 2.0;
//! let image = resample_to(image, &coarse, [2, 4, 4], GridSampling::default())?;
//! assert_eq!((image.shape(), image.spacing()), ([2, 4, 4], [2.0, 1.0, 1.0]));
//! assert_eq!(image.undo_last(false)?.shape(), [4, 4, 4]);
//! # Ok::<(), hearth_image::TransformError>(())
//! ```

#![forbid(unsafe_code)]

pub mod affine;
mod error;
mod image;
pub mod nifti;
mod one_or_many;
pub mod orientation;
mod select;
pub mod spatial;

pub use affine::Affine;
pub use error::TransformError;
pub use image::{Applied, Image, Meta, Space};
pub use one_or_many::OneOrMany;
pub use select::Select;

use burn::tensor::Device;

/// The device that files are loaded to: the CPU.
pub fn host_device() -> Device {
    Device::flex()
}
