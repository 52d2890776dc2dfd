//! What may and may not be written where.

use std::path::Path;

use hearth_train::RunFolder;

use crate::error::{Failure, Outcome};

/// Fails where a new run, data set or the like cannot be: a file is in the way, or something is there already.
pub fn check_free(folder: &Path) -> Outcome {
    if folder.is_file() {
        return Err(Failure::new(format!("--out {} is a file; give a folder", folder.display())));
    }
    let mut inside = match std::fs::read_dir(folder) {
        Ok(inside) => inside,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::from(error).context(format!("cannot look into {}", folder.display()))),
    };
    if inside.next().is_none() {
        return Ok(());
    }
    let advice = if folder.join("recipe.toml").is_file() {
        "it holds a run; add --resume to go on with it, or give another folder"
    } else {
        "give a new or an empty folder"
    };
    Err(Failure::new(format!("{} is not empty: {advice}", folder.display())))
}

/// The folder of a run that was started before.
pub fn open_run(folder: &Path) -> Outcome<RunFolder> {
    if folder.is_file() {
        let advice = "give the folder that `hearth train --out` made";
        return Err(Failure::new(format!("{} is a file; {advice}", folder.display())));
    }
    if !folder.exists() {
        return Err(Failure::new(format!("there is no run at {}: no such folder", folder.display())));
    }
    Ok(RunFolder::open(folder)?)
}
