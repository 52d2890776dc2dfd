//! [`DataError`]: why a case or a data set cannot be used.

use std::path::PathBuf;

use hearth_transforms::StepError;

/// A case could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A step of the pipeline failed.
    #[error(transparent)]
    Step(#[from] Box<StepError>),
    /// A file could not be read or written.
    #[error(transparent)]
    Nifti(#[from] hearth_io::nifti::NiftiError),
    /// A whole-slide image could not be read.
    #[error(transparent)]
    Slide(#[from] hearth_slides::SlideError),
    /// A file of the data set could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// `dataset.json` is invalid.
    #[error("{path}: {what}")]
    List {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Samples do not fit into one batch.
    #[error("{0}")]
    Collate(String),
    /// The cache would not fit.
    #[error("{0}")]
    Cache(String),
    /// An invalid option.
    #[error("{0}")]
    Option(String),
    /// A transform or reader panicked.
    #[error("case {case}: {what}")]
    Panic {
        /// The case.
        case: String,
        /// The panic's message.
        what: String,
    },
}
