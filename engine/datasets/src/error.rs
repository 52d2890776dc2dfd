//! [`DataError`]: why a case or a data set cannot be used.

use std::path::PathBuf;

use hearth_transforms::StepError;

/// The error of loading a case or a data set.
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
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// `dataset.json` is invalid.
    #[error("{path}: {what}")]
    List {
        /// Path of the file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
    /// Samples do not fit into one batch.
    #[error("{0}")]
    Collate(String),
    /// The cache does not fit into memory.
    #[error("{0}")]
    Cache(String),
    /// An invalid option.
    #[error("{0}")]
    Option(String),
    /// A transform or reader panicked.
    #[error("case {case}: {what}")]
    Panic {
        /// Name of the case.
        case: String,
        /// Message of the panic.
        what: String,
    },
}
