//! Run folders that exist, and files that are replaced as a whole.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use hearth_train::RunFolder;

use crate::error::{Context, Outcome, RecipeError};

/// The folder of a run that was started before.
pub fn open_run(folder: &Path) -> Outcome<RunFolder> {
    if folder.is_file() {
        let advice = "give the folder that `hearth train --out` made";
        return Err(RecipeError::new(format!("{} is a file; {advice}", folder.display())));
    }
    if !folder.exists() {
        return Err(RecipeError::new(format!("there is no run at {}: no such folder", folder.display())));
    }
    Ok(RunFolder::open(folder)?)
}

/// Replaces a file as a whole: it is written beside, brought to the disk, and renamed. Nothing is left of one that could not be written.
pub fn replace(path: &Path, content: impl AsRef<[u8]>) -> Outcome {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let beside = PathBuf::from(beside);
    let write = || {
        let mut file = File::create(&beside)?;
        file.write_all(content.as_ref())?;
        file.sync_all()?;
        std::fs::rename(&beside, path)?;
        // The name is on the disk once its folder is.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    };
    let written = write();
    if written.is_err() {
        // Best effort: there may be nothing to remove.
        let _ = std::fs::remove_file(&beside);
    }
    written.while_doing(|| format!("cannot write {}", path.display()))
}
