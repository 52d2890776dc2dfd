//! Checks of output folders and paths.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::{Context, Failure, Outcome};
use crate::interrupt;
pub use hearth_recipe::run::folders::{open_run, replace};

/// Fails if a folder cannot hold a new run, data set or the like: it is a file, or not empty.
pub fn check_free(folder: &Path) -> Outcome {
    if folder.is_file() {
        return Err(Failure::new(format!("--out {} is a file; give a folder", folder.display())));
    }
    let mut inside = match std::fs::read_dir(folder) {
        Ok(inside) => inside,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::from(error).context(format!("cannot read the folder {}", folder.display()))),
    };
    if inside.next().is_none() {
        return Ok(());
    }
    let advice = if folder.join("recipe.toml").is_file() {
        "it holds a run; add --resume to continue it, or give another folder"
    } else {
        "give a new or an empty folder"
    };
    Err(Failure::new(format!("{} is not empty: {advice}", folder.display())))
}

/// Fails for a path that is not UTF-8, which plugins, recipes and JSON need: output would go to
/// another name.
pub fn check_path(folder: &Path) -> Outcome {
    match folder.to_str() {
        Some(_) => Ok(()),
        None => {
            let advice = "rename the folder, or give another one";
            Err(Failure::new(format!(
                "--out {}: this path is not UTF-8, which plugins cannot take; {advice}",
                folder.display()
            )))
        }
    }
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
        let probe = folder.join(".hearth-can-write");
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
