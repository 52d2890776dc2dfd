//! Checks of output folders and paths.

use std::path::{Path, PathBuf};

use crate::error::{Context, Failure, Outcome};
use crate::interrupt;
pub use hearth_run::folders::{open_run, replace};
use hearth_train::is_free;

/// Fails if a folder cannot hold a new run or data set: it is a file, or not empty.
pub fn check_free(folder: &Path) -> Outcome {
    check_new(folder, "give a new or an empty folder")
}

/// Like [`check_free`], for the folder of a run: the message for an existing run names `--resume`.
pub fn check_new_run(folder: &Path) -> Outcome {
    check_new(
        folder,
        match is_run(folder) {
            true => "it holds a run; add --resume to continue it, or give another folder",
            false => "give a new or an empty folder",
        },
    )
}

/// Whether a folder holds a run that can be resumed. A run without a checkpoint starts again.
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

/// Fails for a path that is not UTF-8. Plugins, recipes and JSON take paths as text, so another file
/// would be written.
pub fn check_path(option: &str, path: &Path) -> Outcome<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let advice = "rename it, or give another one";
        let what = "this path is not UTF-8, which recipes and plugins cannot take";
        Failure::new(format!("{option} {}: {what}; {advice}", path.display()))
    })
}

/// A folder that is created and checked to be writable before long work begins. Dropping it removes the
/// folder if it is empty.
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
        hearth_files::check_can_write(folder)
            .while_doing(|| format!("cannot write into --out {}", folder.display()))?;
        Ok(reserved)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        interrupt::remove_empty();
    }
}
