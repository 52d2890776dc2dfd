//! [`NnunetError`].

use std::path::{Path, PathBuf};

/// Why a file of nnU-Net cannot be used, or a case cannot be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NnunetError {
    /// A file or folder cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file says something that cannot be used.
    #[error("{path}: {what}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what was expected.
        what: String,
    },
    /// A key of a JSON file.
    #[error("{key}: {what}")]
    Key {
        /// The dotted key.
        key: String,
        /// What is wrong with its value.
        what: String,
    },
    /// Anything about a case.
    #[error("{0}")]
    Case(String),
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, NnunetError>;

impl NnunetError {
    /// A key with a value that cannot be used.
    pub fn key(key: impl Into<String>, what: impl Into<String>) -> Self {
        NnunetError::Key { key: key.into(), what: what.into() }
    }

    /// An image that cannot be used.
    pub fn case(what: impl Into<String>) -> Self {
        NnunetError::Case(what.into())
    }

    /// The same error, of this file.
    pub(crate) fn of(self, path: &Path) -> Self {
        match self {
            NnunetError::Key { .. } | NnunetError::Case(_) => {
                NnunetError::File { path: path.to_owned(), what: self.to_string() }
            }
            other => other,
        }
    }
}
