//! [`Layout`].

use std::path::Path;

use hearth_engine::HandlerError;

use super::Cases;

/// A layout of data sets on disk: from a folder or a list to its cases.
pub trait Layout: Send + Sync {
    /// Lists the cases of a data set, in an order that does not depend on the machine. Paths are absolute, or
    /// start at `folder`.
    ///
    /// # Errors
    /// If a list is damaged, or a case lacks a file; the error names both.
    fn cases(&self, folder: &Path) -> Result<Cases, HandlerError>;
}
