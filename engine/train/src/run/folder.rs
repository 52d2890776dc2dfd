//! The layout of a run's folder.

use std::io;
use std::path::{Path, PathBuf};

use hearth_files::is_being_written;

use super::lock;

/// The folder of a run: its recipe, checkpoints, curves, logs and summary.
///
/// ```
/// # use hearth_train::RunFolder;
/// let parent = tempfile::tempdir()?;
/// let folder = RunFolder::create(&parent.path().join("spleen"), "max_epochs = 3\n")?;
/// assert!(folder.recipe().ends_with("spleen/recipe.toml") && folder.checkpoints().is_dir());
/// assert!(RunFolder::create(folder.root(), "").is_err()); // not empty
/// assert_eq!(RunFolder::open(folder.root())?, folder);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder {
    root: PathBuf,
}

/// The reason why a folder cannot be used for a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunFolderError {
    /// A new run needs an empty folder.
    #[error("{path} is not empty; give a new folder, or resume the run that is in it")]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// There is no run to resume.
    #[error("{path} holds no run: there is no recipe.toml in it")]
    NoRun {
        /// The folder.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {task} {path}: {source}")]
    Io {
        /// The failed operation.
        task: &'static str,
        /// The folder or file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}

/// Whether a folder contains nothing but the leftovers of a process that was killed before its run
/// began: a file that was being written (`.writing-...`), a lock, an empty folder for checkpoints. A
/// link is none of them, whatever its name.
///
/// # Errors
/// When the folder cannot be read.
pub fn is_free(folder: &Path) -> io::Result<bool> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let remains = match &*name {
            "checkpoints" => entry.file_type()?.is_dir() && std::fs::read_dir(entry.path())?.next().is_none(),
            name => {
                let known = name == CAN_WRITE || name == lock::FILE || is_being_written(&entry.file_name());
                known && entry.file_type()?.is_file()
            }
        };
        if !remains {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The file with which earlier versions tested whether a folder is writable.
const CAN_WRITE: &str = ".hearth-can-write";

impl RunFolder {
    /// Creates the folder of a new run, with the resolved recipe in it.
    ///
    /// # Errors
    /// When the folder is not [free](is_free), or cannot be written.
    pub fn create(root: &Path, recipe: &str) -> Result<Self, RunFolderError> {
        let folder = Self { root: root.to_owned() };
        let fail = |task, path: &Path| {
            let path = path.to_owned();
            move |source| RunFolderError::Io { task, path, source }
        };
        std::fs::create_dir_all(root).map_err(fail("make", root))?;
        if !is_free(root).map_err(fail("read", root))? {
            return Err(RunFolderError::NotEmpty { path: root.to_owned() });
        }
        std::fs::create_dir_all(folder.checkpoints()).map_err(fail("make", &folder.checkpoints()))?;
        hearth_files::replace(&folder.recipe(), recipe).map_err(fail("write", &folder.recipe()))?;
        // A new folder survives a power cut only once its parent folder is flushed.
        let parent = root.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // A parent that may not be read is left to the system.
        let _ = hearth_files::flush_folder(parent);
        Ok(folder)
    }

    /// Opens the folder of an earlier run.
    ///
    /// # Errors
    /// When it contains no recipe.
    pub fn open(root: &Path) -> Result<Self, RunFolderError> {
        let folder = Self { root: root.to_owned() };
        if !folder.recipe().is_file() {
            return Err(RunFolderError::NoRun { path: root.to_owned() });
        }
        Ok(folder)
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The resolved recipe, `recipe.toml`.
    pub fn recipe(&self) -> PathBuf {
        self.root.join("recipe.toml")
    }

    /// The [checkpoints](crate::checkpoint).
    pub fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    /// TensorBoard's event files.
    pub fn tensorboard(&self) -> PathBuf {
        self.root.join("tensorboard")
    }

    /// The file `metrics.csv`, with a row for each epoch.
    pub fn metrics(&self) -> PathBuf {
        self.root.join("metrics.csv")
    }

    /// The file `log.jsonl`, with a JSON object per event.
    pub fn log(&self) -> PathBuf {
        self.root.join("log.jsonl")
    }

    /// The file `summary.json`, with results and timings.
    pub fn summary(&self) -> PathBuf {
        self.root.join("summary.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_a_folder_of_its_own_and_is_found_again() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let root = dir.path().join("runs/first");
        let folder = RunFolder::create(&root, "epochs = 3\n").expect("a new folder");
        assert_eq!(std::fs::read_to_string(folder.recipe()).expect("the recipe"), "epochs = 3\n");
        assert!(folder.checkpoints().is_dir());
        assert_eq!(RunFolder::open(&root).expect("the run"), folder);
        assert!(matches!(RunFolder::create(&root, ""), Err(RunFolderError::NotEmpty { .. })));
        assert!(matches!(RunFolder::open(dir.path()), Err(RunFolderError::NoRun { .. })));
    }

    #[test]
    fn what_a_killed_start_leaves_is_in_nobodys_way() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let root = dir.path().join("run");
        std::fs::create_dir_all(root.join("checkpoints")).expect("a folder");
        for name in [CAN_WRITE, lock::FILE, ".writing-aB3xYz"] {
            std::fs::write(root.join(name), "").expect("a file");
        }
        assert!(is_free(&root).expect("readable"));
        std::fs::write(root.join("checkpoints/of-another"), "").expect("a file");
        assert!(!is_free(&root).expect("readable"));
        std::fs::remove_file(root.join("checkpoints/of-another")).expect("removed");
        #[cfg(unix)]
        for name in [lock::FILE, ".writing-link"] {
            let _ = std::fs::remove_file(root.join(name));
            std::os::unix::fs::symlink(dir.path().join("elsewhere"), root.join(name)).expect("a link");
            assert!(!is_free(&root).expect("readable"), "{name}");
            std::fs::remove_file(root.join(name)).expect("removed");
        }
        RunFolder::create(&root, "epochs = 3\n").expect("a free folder");
        assert!(!is_free(&root).expect("readable") && is_free(&dir.path().join("none")).is_err());
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("a file");
        let text = RunFolder::create(&file.join("run"), "").expect_err("no folder in a file").to_string();
        assert!(text.contains("cannot make") && text.contains("file"), "{text}");
    }
}
