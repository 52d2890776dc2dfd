//! DICOM whole-slide images (VL Whole Slide Microscopy Image Storage): headers, frames, and the
//! images composed of these frames.
//!
//! Attributes come from `dicom-parser`'s stream of tokens, and only required attributes are kept in
//! memory: as a tree of objects, the attributes of a slide's frames may take hundreds of megabytes.

mod frames;
mod header;
mod matrix;
mod meta;
mod series;
mod syntax;

pub(crate) use header::Header;
pub(crate) use matrix::Matrix;
pub(crate) use series::{Series, reads_as_dicom};
pub use series::{dicom_slides, is_dicom_slide};

/// VL Whole Slide Microscopy Image Storage.
const WHOLE_SLIDE: &str = "1.2.840.10008.5.1.4.1.1.77.1.6";
