//! Installs a plugin: its files, as they were read and shown, are copied into a folder of plugins.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::PluginError;
use crate::file::{check_usable, identity_in, read};
use crate::report::{Info, Report};
use crate::safety::files_of;
use crate::shown::shown_path;

/// The files of a plugin in memory: what the user agrees to is what is written, even if the files
/// change in between.
#[derive(Debug)]
pub struct Installable {
    info: Info,
    /// The library first.
    files: Vec<(OsString, Vec<u8>)>,
}

/// The reason why a plugin was not installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// A file cannot be written.
    #[error("cannot write {p}: {source}", p = shown_path(path))]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The copy cannot be loaded.
    #[error("{problem}; nothing is installed")]
    Check {
        /// The problem.
        problem: String,
    },
}

impl Installable {
    /// Reads the files of a plugin. None of its code runs.
    ///
    /// # Errors
    /// As [`examine`](crate::examine), except for its check of who can change the file, which is
    /// copied.
    pub fn read(library: &Path) -> Result<Self, PluginError> {
        let mut files = Vec::new();
        for path in files_of(library) {
            files.push((path.file_name().unwrap_or_default().to_owned(), read(&path)?));
        }
        let bytes = &files[0].1;
        let identity = identity_in(library, bytes)?;
        check_usable(library, &identity, bytes)?;
        Ok(Self { info: Info::of_identity(library, &identity), files })
    }

    /// The identity that the library states.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Writes the files into a folder, and returns their paths. `check` loads the library from a
    /// folder of its own first; if it reports a problem, nothing stays.
    ///
    /// # Errors
    /// A file that cannot be written, and the problem that `check` reports.
    pub fn install(&self, folder: &Path, check: impl FnOnce(&Path) -> Report) -> Result<Vec<PathBuf>, InstallError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| InstallError::Write { path, source }
        };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let trial = Trial(folder.join(format!(".installing-{}", std::process::id())));
        fs::create_dir(&trial.0).map_err(failed(&trial.0))?;
        for (name, bytes) in &self.files {
            let path = trial.0.join(name);
            fs::write(&path, bytes).map_err(failed(&path))?;
        }
        let library = trial.0.join(&self.files[0].0);
        let report = check(&library);
        if !report.ok {
            let problem = report.problem.unwrap_or_else(|| "it cannot be loaded".to_owned());
            return Err(InstallError::Check { problem });
        }
        // The library last, so that it never lacks its modules. A program that has opened the old
        // one keeps it.
        let mut installed = Vec::new();
        for (name, _) in self.files.iter().rev() {
            let target = folder.join(name);
            fs::rename(trial.0.join(name), &target).map_err(failed(&target))?;
            installed.push(target);
        }
        installed.reverse();
        Ok(installed)
    }
}

/// A folder that is removed at the end.
struct Trial(PathBuf);

impl Drop for Trial {
    fn drop(&mut self) {
        // What cannot be removed is hidden, and no plugin is searched for in it.
        let _ = fs::remove_dir_all(&self.0);
    }
}
