//! Files where a job writes a table of its own accord: [`in_the_way`].

use std::path::Path;

use hearth_recipe::Outcome;
use hearth_run::outputs::{is_whole, record_of, sum, written_by};

/// Why a table may not be replaced: it is of another program, or was changed since; `None` if it may be
/// written.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn in_the_way(path: &Path, command: &str) -> Outcome<Option<&'static str>> {
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    if !written_by(path, command) {
        return Ok(Some("is not this program's"));
    }
    // A file without a sum was not finished.
    let same = !is_whole(path, command) || record_of(path).unwrap_or_default()["blake3"] == sum(path)?;
    Ok(if same { None } else { Some("was changed after this program wrote it") })
}
