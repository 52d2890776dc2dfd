//! The cases of `-i` arguments: patterns, files, folders, data sets, DICOM series.

mod case;
mod files_key;
mod find;
pub mod globs;
mod series;
mod series_choice;

pub use case::Case;
pub use files_key::files_key;
pub use find::{CaseFinder, images_of, labelled};
pub use series::{FoundSeries, series_below};
