//! [`PackageError`].

use std::io;
use std::path::{Path, PathBuf};

/// An error of a package, a table of terms or a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// A file that cannot be read or written.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// `read` or `write`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason that the system gives.
        source: io::Error,
    },
    /// A file that is not an intact package.
    #[error("{} {what}", path.display())]
    Package {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// An invalid key or signature.
    #[error("{} {what}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

impl PackageError {
    pub(crate) fn reading(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing: "read", path, source }
    }

    pub(crate) fn writing(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing: "write", path, source }
    }

    pub(crate) fn package(path: &Path, what: impl Into<String>) -> Self {
        Self::Package { path: path.to_owned(), what: what.into() }
    }

    pub(crate) fn key(path: &Path, what: impl Into<String>) -> Self {
        Self::Key { path: path.to_owned(), what: what.into() }
    }
}
