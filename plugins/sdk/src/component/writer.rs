//! [`Writer`].

use std::path::{Path, PathBuf};

use hearth_engine::HandlerError;

use super::Array;

/// A writer of image files.
///
/// ```
/// use std::path::{Path, PathBuf};
/// use hearth_plugin::HandlerError;
/// use hearth_plugin::component::{Array, Writer};
///
/// /// Little-endian f32, without shape and position.
/// struct Raw;
///
/// impl Writer for Raw {
///     fn endings(&self) -> Vec<String> {
///         vec![".raw".to_owned()]
///     }
///     fn write(&self, image: Array<'_>, path: &Path, _case: &str) -> Result<Vec<PathBuf>, HandlerError> {
///         let bytes = image.values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
///         std::fs::write(path, bytes)?;
///         Ok(vec![path.to_owned()])
///     }
/// }
///
/// assert_eq!(Raw.endings(), [".raw"]);
/// ```
pub trait Writer: Send + Sync {
    /// The endings of its files, with the dot: `.xyz`.
    fn endings(&self) -> Vec<String>;

    /// The endings of the files that it always writes next to each of them, in place of its ending: `.raw`
    /// for the values of `NAME.xyz` in `NAME.raw`. The program checks before a prediction whether they may
    /// be replaced.
    fn sides(&self) -> Vec<String> {
        Vec::new()
    }

    /// Writes an image `[C, X, Y, Z]` and returns the files that it wrote. `path` does not exist, and ends
    /// in one of its endings; other files may be next to it.
    ///
    /// # Errors
    /// If the format cannot hold the image, or the file cannot be written.
    fn write(&self, image: Array<'_>, path: &Path, case: &str) -> Result<Vec<PathBuf>, HandlerError>;
}
