//! Existing run folders, and the files in them.

use std::path::Path;

use hearth_train::RunFolder;

use hearth_recipe::{Context, Outcome, RecipeError};

/// Opens the folder of an existing run.
pub fn open_run(folder: &Path) -> Outcome<RunFolder> {
    hearth_files::check_readable(folder).while_doing(|| format!("cannot open {}", folder.display()))?;
    if folder.is_file() {
        let advice = "give the folder that `hearth train --out` made";
        return Err(RecipeError::new(format!("{} is a file; {advice}", folder.display())));
    }
    if !folder.exists() {
        return Err(RecipeError::new(format!("there is no run at {}: no such folder", folder.display())));
    }
    Ok(RunFolder::open(folder)?)
}

/// Replaces a whole file atomically. A failed write leaves nothing behind.
pub fn replace(path: &Path, content: impl AsRef<[u8]>) -> Outcome {
    hearth_files::replace(path, content).while_doing(|| format!("cannot write {}", path.display()))
}
