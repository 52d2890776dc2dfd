//! [`Writer`].

use std::path::{Path, PathBuf};

use hearth_engine::HandlerError;

use super::Array;

/// A writer of image files.
pub trait Writer: Send + Sync {
    /// The endings of its files, with the dot: `.xyz`.
    fn endings(&self) -> Vec<String>;

    /// Writes an image `[C, X, Y, Z]` and returns the files that it wrote. `path` does not exist, and ends
    /// in one of its endings; other files may be next to it.
    ///
    /// # Errors
    /// If the format cannot hold the image, or the file cannot be written.
    fn write(&self, image: Array<'_>, path: &Path, case: &str) -> Result<Vec<PathBuf>, HandlerError>;
}
