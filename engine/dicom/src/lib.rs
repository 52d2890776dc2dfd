//! Reads and writes DICOM: folders, volumes, regions.
//!
//! ```no_run
//! # fn main() -> Result<(), hearth_dicom::DicomError> {
//! let scan = hearth_dicom::scan("patient/")?;
//! for series in &scan.series {
//!     println!("{}", series.summary());
//!     series.findings().iter().for_each(|f| println!("  {f}"));
//! }
//! let volume = scan.series[0].read()?; // values [C, X, Y, Z], Z fastest, in HU, Bq/ml, ...; an affine to RAS+ mm
//! let contours = hearth_dicom::StructureSet::open("patient/RS.dcm")?;
//! let tumour = contours.mask("GTV", volume.grid())?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`scan`] inspects all files of a folder and lists the series of images. In this crate a
//!   **series** is the set of slices that form one volume: slices of one SeriesInstanceUID that can
//!   be stacked, sorted by position along their normal, never by name or number. If one UID has several
//!   volumes, such as echoes, each has a [key](Series::key).
//! - Anomalies are reported as [`Finding`]s with file names: missing slices, tilt, duplicates, ...
//!   Those that would make the volume wrong are errors, unless they are accepted
//!   ([`ReadOptions::accept`]).
//! - [`Series::read`] decodes slices in parallel. Each slice has its own rescaling, which PET
//!   requires.
//! - [`StructureSet`] and [`Segmentation`] become masks and label maps on the grid of a series;
//!   [`Scan::pairs`] matches them to their images. [`mod@write`] writes such files, and reports of
//!   volumes and diameters.
//!
//! Files are untrusted: every size is checked before memory is allocated ([`Limits`]), and a panic
//! in a decoder becomes an error of its file.

#![forbid(unsafe_code)]

mod charset;
mod codec;
mod contours;
mod csa;
mod dicomdir;
mod error;
mod finding;
mod geometry;
mod head;
mod image;
mod interleaved;
mod marks;
mod mosaic;
mod open;
mod options;
mod outline;
mod pairs;
mod pattern;
mod pixels;
mod polygon;
pub mod quiet;
mod regions;
mod rtstruct;
mod scan;
mod seg;
mod select;
mod series;
mod stack;
mod syntax;
mod tags;
mod unknown;
mod volume;
mod volumes;
pub mod write;

pub use error::DicomError;
pub use finding::{Finding, FindingKind, Severity};
pub use geometry::{Affine, Grid};
pub use head::Head;
pub use options::{Limits, Monochrome1, ReadOptions};
pub use pairs::{Pair, Pairs};
pub use pixels::{StoredPixels, StoredType, read_stored};
pub use regions::{Region, RegionVolume, Regions, select_regions};
pub use rtstruct::{Contour, ContourKind, Mask, Roi, StructureSet};
pub use scan::{Annotation, AnnotationKind, FailedFile, OtherObject, Scan, read_path, scan, scan_files, scan_with};
pub use seg::{Segment, Segmentation, SegmentationKind};
pub use series::Series;
pub use stack::Slice;
pub use syntax::{TransferSyntax, is_dicom, is_dicom_file};
pub use volume::{Rescale, Volume};
pub use write::{Authorship, DrawnBy};
