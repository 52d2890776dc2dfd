//! The cases of `-i` arguments: patterns, files, folders, data sets, DICOM series.

mod case;
mod files_key;
mod find;
pub mod globs;
mod series;
mod series_choice;
mod sought;

pub use case::Case;
pub use files_key::files_key;
pub use find::{CaseFinder, images_of, labelled};
pub(crate) use find::{is_result, name_others};
pub use series::{FoundSeries, series_below};
pub use sought::{Sought, check_upload};
