//! Whole-slide images (pathology) and other TIFFs, without a native library.
//!
//! [`Slide`] opens a pyramid of tiled pages and reads regions of it: only the tiles that a region
//! touches are decoded, in parallel, and kept in a [`TileCache`] with a bound in bytes that all
//! slides share. Any number of threads may read at once; reads name their place in the file, so
//! there is no common position to wait for.
//!
//! [`read_tiff`] reads any TIFF as an image, [`read_tiff_stack`] a stack of pages.
//!
//! [`TissueMask`] tells tissue from glass, and where patches lie on it.
//!
//! # Files that lie
//! Sizes, offsets and counts are checked before they are followed and before memory is taken for
//! them ([`Limits`]). A file that ends early, contradicts itself or runs in circles is an error,
//! and so is a decoder that panics.

mod cache;
mod codec;
mod error;
mod limits;
mod pixels;
mod raster;
mod region;
mod slide;
mod source;
mod tiff;
mod tissue;

pub use cache::TileCache;
pub use error::SlideError;
pub use limits::Limits;
pub use raster::{Color, Raster, SampleType, Samples};
pub use slide::{Background, Level, RESOLUTION_TOLERANCE, Resolution, Slide, SlideOptions, Stats};
pub use tiff::{PageInfo, TiffFile, read_tiff, read_tiff_stack};
pub use tissue::{GridOptions, Patch, SlidingOptions, TissueMask, TissueOptions, TissueRule};
