//! Checks of output folders and paths.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::{Context, Failure, Outcome};
use crate::interrupt;
pub use hearth_run::folders::{open_run, replace};
use hearth_train::{CAN_WRITE, is_free};

/// Fails if a folder cannot hold a new run, data set or the like: it is a file, or not empty.
pub fn check_free(folder: &Path) -> Outcome {
    check_new(folder, "give a new or an empty folder")
}

/// The same for a run, which can be resumed where there is one.
pub fn check_new_run(folder: &Path) -> Outcome {
    check_new(
        folder,
        match is_run(folder) {
            true => "it holds a run; add --resume to continue it, or give another folder",
            false => "give a new or an empty folder",
        },
    )
}

/// Whether a folder holds a run, which can be resumed. One without a checkpoint begins again.
pub fn is_run(folder: &Path) -> bool {
    folder.join("recipe.toml").is_file()
}

fn check_new(folder: &Path, advice: &str) -> Outcome {
    if folder.is_file() {
        return Err(Failure::new(format!("--out {} is a file; give a folder", folder.display())));
    }
    match is_free(folder) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::new(format!("{} is not empty: {advice}", folder.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::from(error).context(format!("cannot read the folder {}", folder.display()))),
    }
}

/// Fails for a path that cannot be handed on as text, which is what plugins, recipes and JSON take:
/// another name would be written to in its place.
pub fn check_path(option: &str, path: &Path) -> Outcome<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let advice = "rename it, or give another one";
        let what = "this path is not UTF-8, which recipes and plugins cannot take";
        Failure::new(format!("{option} {}: {what}; {advice}", path.display()))
    })
}

/// A folder that is created, and known to be writable, before long work begins. When dropped, it is
/// removed if it is empty.
#[derive(Debug)]
pub struct Reserved(());

impl Reserved {
    /// Creates the folder and its parents.
    pub fn new(folder: &Path) -> Outcome<Self> {
        check_free(folder)?;
        let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let mut made: Vec<PathBuf> = folder.ancestors().take_while(missing).map(Path::to_owned).collect();
        made.reverse();
        std::fs::create_dir_all(folder).while_doing(|| format!("cannot make the folder {}", folder.display()))?;
        interrupt::made(folder.to_owned(), made);
        let reserved = Self(());
        let probe = folder.join(CAN_WRITE);
        File::create(&probe)
            .and_then(|_| std::fs::remove_file(&probe))
            .while_doing(|| format!("cannot write into --out {}", folder.display()))?;
        Ok(reserved)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        interrupt::remove_empty();
    }
}
