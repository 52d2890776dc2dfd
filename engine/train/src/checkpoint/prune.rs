//! Deletes checkpoints that are no longer needed.

use std::fs;
use std::path::{Path, PathBuf};

use super::manifest::Manifest;
use super::{CheckpointError, TEMPORARY, list};

/// Keeps the newest `keep_last` (at least one) checkpoints with this tag and deletes the older
/// ones, but never the best checkpoint of the run and never the only intact one. Returns the
/// deleted folders.
///
/// The best checkpoint is the newest one, of any tag, that was written in an epoch with the best
/// key metric so far.
///
/// # Errors
/// [`CheckpointError::Read`] where the folder cannot be listed, [`CheckpointError::Delete`] where a
/// checkpoint cannot be deleted.
pub fn prune(dir: &Path, tag: &str, keep_last: usize) -> Result<Vec<PathBuf>, CheckpointError> {
    prune_of(dir, None, tag, keep_last)
}

/// Same as [`prune`], among the checkpoints of this run; those of others are kept and do not count.
///
/// # Errors
/// Same as [`prune`].
pub(crate) fn prune_of(
    dir: &Path,
    run: Option<&str>,
    tag: &str,
    keep_last: usize,
) -> Result<Vec<PathBuf>, CheckpointError> {
    // Damaged checkpoints are kept, so that the user can inspect them. They do not count here.
    let ours = |manifest: &Manifest| run.is_none() || manifest.header.run.as_deref() == run;
    let whole: Vec<(PathBuf, Manifest)> =
        list(dir)?.into_iter().filter_map(|entry| Some((entry.path, entry.manifest.ok().filter(ours)?))).collect();
    let best = whole.iter().find(|(_, manifest)| manifest.header.best).map(|(path, _)| path.clone());
    let mut deleted = Vec::new();
    for (path, _) in whole.iter().filter(|(_, manifest)| manifest.header.tag == tag).skip(keep_last.max(1)) {
        if Some(path) != best.as_ref() {
            delete(dir, path)?;
            deleted.push(path.clone());
        }
    }
    Ok(deleted)
}

/// Deletes a checkpoint. The folder is renamed first, so that a crash in the middle leaves nothing
/// that looks like a damaged checkpoint.
fn delete(dir: &Path, path: &Path) -> Result<(), CheckpointError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let going = dir.join(format!("{TEMPORARY}old-{name}"));
    let fail = |source| CheckpointError::Delete { path: path.to_owned(), source };
    fs::rename(path, &going).map_err(fail)?;
    fs::remove_dir_all(&going).map_err(fail)
}
