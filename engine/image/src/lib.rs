//! Medical images: [`Image`], a tensor with its position in the world, and operations on its grid.
//!
//! [`affine`] and [`orientation`] contain the geometry, [`spatial`] the operations: each updates
//! the affine, is recorded in the image's history, and can be inverted. [`nifti::Header`] is the
//! file header that an image carries from reading to writing.

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
