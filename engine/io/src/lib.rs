//! Files of medical images: [`readers`] and [`writers`], chosen by content or suffix.
//!
//! [`nifti`] is implemented here; DICOM, whole-slide images and meshes have separate crates, which
//! the readers and writers call. Blosc2 frames are read for nnU-Net's data.

#![forbid(unsafe_code)]

mod blosc2;
pub mod nifti;
pub mod readers;
pub mod writers;

pub use nifti::{NiftiError, NiftiOptions, read_nifti, read_nifti_on, write_nifti};
pub use readers::{Parts, ReadError, ReadOptions, Reader, read_image, read_image_with};
pub use writers::{WriteError, WriteOptions, write_image};
