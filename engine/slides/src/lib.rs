//! Whole-slide images (pathology) as TIFF and as DICOM, and other TIFFs, without a native library.
//!
//! [`Slide`] opens a pyramid of tiled pages, or of DICOM instances, and reads regions of it: only
//! the tiles that a region touches are decoded, in parallel, and cached in a [`TileCache`] with a
//! limit in bytes that all slides share. Any number of threads may read at once; each read has its
//! own offset in the file, so there is no shared position to lock. [`dicom_slides`] finds the DICOM
//! slides of a folder.
//!
//! [`read_tiff`] reads any TIFF as an image, [`read_tiff_stack`] a stack of pages.
//!
//! [`TissueMask`] separates tissue from glass and places patches on it. [`Annotations`] reads
//! polygons of ASAP or QuPath and draws masks; [`pyramid`] and [`geojson`] write results.
//!
//! # Untrusted files
//! Sizes, offsets and counts are checked before they are used and before memory is allocated for
//! them ([`Limits`]). A file that ends early, contradicts itself or has circular references is an
//! error, and so is a panic in a decoder.

#![forbid(unsafe_code)]

mod annotations;
mod cache;
mod codec;
mod dicom;
mod error;
mod limits;
mod pixels;
mod raster;
mod region;
mod slide;
mod source;
mod tiff;
mod tissue;
mod write;

pub use annotations::{Annotations, Area, EXCLUDED, Feature, Geometry, Pick, Point, Shape, contours, geojson};
pub use cache::TileCache;
pub use dicom::{dicom_slides, is_dicom_slide};
pub use error::SlideError;
pub use limits::Limits;
pub use raster::{Color, Raster, SampleType, Samples};
pub use slide::{Background, Level, RESOLUTION_TOLERANCE, Resolution, Slide, SlideOptions, Stats};
pub use tiff::{PageInfo, TiffFile, read_tiff, read_tiff_stack};
pub use tissue::{GridOptions, Patch, SlidingOptions, TissueMask, TissueOptions, TissueRule};
pub use write::{PyramidError, PyramidOptions, pyramid};
