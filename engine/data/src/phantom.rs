//! Made-up CT volumes to try things on.

use std::path::Path;

use crate::{DataError, Progress};

/// Writes a Decathlon folder of `cases` made-up abdominal CTs with a spleen.
///
/// # Errors
/// Where the file system says no.
pub fn spleen(_dir: impl AsRef<Path>, _cases: usize, _seed: u64, _progress: Progress) -> Result<(), DataError> {
    Err(DataError::Option("not here yet".to_owned()))
}
