//! [`Layout`].

use std::path::Path;

use hearth_engine::HandlerError;

use super::Cases;

/// A layout of data sets on disk: from a folder or a list to its cases.
///
/// ```
/// use std::path::Path;
/// use hearth_plugin::HandlerError;
/// use hearth_plugin::component::{Case, Cases, Layout};
///
/// /// Each file of the folder is the image of a case.
/// struct Flat;
///
/// impl Layout for Flat {
///     fn cases(&self, folder: &Path) -> Result<Cases, HandlerError> {
///         let mut names = Vec::new();
///         for entry in std::fs::read_dir(folder)? {
///             names.push(entry?.file_name().to_string_lossy().into_owned());
///         }
///         names.sort();
///         let case = |name: String| Case { image: vec![name.clone()], name, ..Case::default() };
///         Ok(Cases { cases: names.into_iter().map(case).collect(), ..Cases::default() })
///     }
/// }
///
/// assert!(Flat.cases(Path::new("a folder that does not exist")).is_err());
/// ```
pub trait Layout: Send + Sync {
    /// Lists the cases of a data set, in an order that does not depend on the machine. Paths are absolute, or
    /// start at `folder`.
    ///
    /// # Errors
    /// If a list is damaged, or a case lacks a file; the error names both.
    fn cases(&self, folder: &Path) -> Result<Cases, HandlerError>;
}
