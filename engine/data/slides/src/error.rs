//! What can go wrong with a slide, and how it is told.

use std::io;
use std::path::{Path, PathBuf};

/// A slide could not be opened or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlideError {
    /// The file system said no.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not TIFF.
    #[error("{path}: {what}")]
    NotTiff {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        what: String,
    },
    /// The file ends early, contradicts itself, or is damaged.
    #[error("{path}: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where, and what is wrong.
        what: String,
    },
    /// The file is sound, but not something that is read here.
    #[error("{path}: {what}")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// The file wants more memory than [`Limits`](crate::Limits) allow.
    #[error("{path}: {what}")]
    Limit {
        /// The file.
        path: PathBuf,
        /// What wants it, how much, and how much is allowed.
        what: String,
    },
    /// The slide has no such level, image or resolution.
    #[error("{path}: {what}")]
    Request {
        /// The file.
        path: PathBuf,
        /// What was asked for, and what there is.
        what: String,
    },
}

/// What goes wrong below the level at which the file's name is known.
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

    /// Says where in the file it happened.
    pub fn within(self, place: impl FnOnce() -> String) -> Self {
        match self {
            Fault::Damaged(what) => Fault::Damaged(format!("{}: {what}", place())),
            Fault::Unsupported(what) => Fault::Unsupported(format!("{}: {what}", place())),
            Fault::Limit(what) => Fault::Limit(format!("{}: {what}", place())),
            other => other,
        }
    }

    /// The error as users see it.
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
