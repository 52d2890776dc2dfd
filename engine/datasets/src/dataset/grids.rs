//! [`check_grids`]: whether the files of each image lie on one grid.

use hearth_io::readers::check_grid;

use super::Item;

/// Checks from the headers that the files of each image have the same grid; files without a header
/// (pictures, DICOM) are compared when they are read.
///
/// # Errors
/// A message about the first case whose files differ.
pub fn check_grids<'a>(items: impl IntoIterator<Item = &'a Item>) -> Result<(), String> {
    for item in items {
        for parts in item.parts.values() {
            check_grid(parts).map_err(|why| format!("case {}: {why}", item.case))?;
        }
    }
    Ok(())
}
