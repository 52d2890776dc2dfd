//! [`NnunetError`].

use std::path::{Path, PathBuf};

/// Why a file of nnU-Net cannot be used, or a case cannot be processed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NnunetError {
    /// A file or folder that cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file with unusable content.
    #[error("{path}: {what}")]
    File {
        /// The file.
        path: PathBuf,
        /// The problem, and the expected value.
        what: String,
    },
    /// A key of a JSON file with an unusable value.
    #[error("{key}: {what}")]
    Key {
        /// The dotted key.
        key: String,
        /// The problem of its value.
        what: String,
    },
    /// An error of a case.
    #[error("{0}")]
    Case(String),
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, NnunetError>;

impl NnunetError {
    /// Creates an error about a key with an unusable value.
    pub fn key(key: impl Into<String>, what: impl Into<String>) -> Self {
        NnunetError::Key { key: key.into(), what: what.into() }
    }

    /// Creates an error about an unusable image.
    pub fn case(what: impl Into<String>) -> Self {
        NnunetError::Case(what.into())
    }

    /// Adds the file to the error.
    pub(crate) fn of(self, path: &Path) -> Self {
        match self {
            NnunetError::Key { .. } | NnunetError::Case(_) => {
                NnunetError::File { path: path.to_owned(), what: self.to_string() }
            }
            other => other,
        }
    }
}
