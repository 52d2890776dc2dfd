//! A key that distinguishes the files of a case from other files with the same names.

use std::path::PathBuf;

use hearth_recipe::{Context, Outcome};
use serde_json::{Value, json};

/// The size in bytes of all files, and the latest modification time in milliseconds since 1970.
///
/// # Errors
/// A missing file.
pub fn files_key(files: &[PathBuf]) -> Outcome<Value> {
    let (mut bytes, mut changed) = (0, None);
    for file in files {
        let facts = std::fs::metadata(file).while_doing(|| format!("cannot read {}", file.display()))?;
        bytes += facts.len();
        let at = facts.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        changed = changed.max(at);
    }
    Ok(json!({ "bytes": bytes, "changed": changed.map(|at| at.as_millis() as u64) }))
}
