//! Errors of slides, and their messages.

use std::io;
use std::path::{Path, PathBuf};

/// A slide could not be opened or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlideError {
    /// An I/O error.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is neither TIFF nor DICOM, or the folder contains no slide.
    #[error("{path}: {what}")]
    NotTiff {
        /// The file.
        path: PathBuf,
        /// The apparent content.
        what: String,
    },
    /// The file ends early, contradicts itself, or is damaged.
    #[error("{path}: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The position and the problem.
        what: String,
    },
    /// The file is valid, but not supported.
    #[error("{path}: {what}")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The unsupported feature.
        what: String,
    },
    /// The file needs more memory than [`Limits`](crate::Limits) allow.
    #[error("{path}: {what}")]
    Limit {
        /// The file.
        path: PathBuf,
        /// The object, its size, and the limit.
        what: String,
    },
    /// The slide has no such level, image or resolution.
    #[error("{path}: {what}")]
    Request {
        /// The file.
        path: PathBuf,
        /// The requested item, and the existing ones.
        what: String,
    },
}

/// An error in code that does not know the file's name.
#[derive(Debug)]
pub(crate) enum Fault {
    Io(io::Error),
    NotTiff(String),
    Damaged(String),
    Unsupported(String),
    Limit(String),
}

impl Fault {
    pub fn damaged(what: impl Into<String>) -> Self {
        Fault::Damaged(what.into())
    }

    pub fn unsupported(what: impl Into<String>) -> Self {
        Fault::Unsupported(what.into())
    }

    /// Adds the position in the file to the error.
    pub fn within(self, place: impl FnOnce() -> String) -> Self {
        match self {
            Fault::Damaged(what) => Fault::Damaged(format!("{}: {what}", place())),
            Fault::Unsupported(what) => Fault::Unsupported(format!("{}: {what}", place())),
            Fault::Limit(what) => Fault::Limit(format!("{}: {what}", place())),
            other => other,
        }
    }

    /// The error for users, with the file's name.
    pub fn of(self, path: &Path) -> SlideError {
        let path = path.to_owned();
        match self {
            Fault::Io(source) => SlideError::Io { path, source },
            Fault::NotTiff(what) => SlideError::NotTiff { path, what },
            Fault::Damaged(what) => SlideError::Damaged { path, what },
            Fault::Unsupported(what) => SlideError::Unsupported { path, what },
            Fault::Limit(what) => SlideError::Limit { path, what },
        }
    }
}

impl From<io::Error> for Fault {
    fn from(source: io::Error) -> Self {
        Fault::Io(source)
    }
}
