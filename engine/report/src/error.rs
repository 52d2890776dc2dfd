//! Errors that prevent a report: a folder that is not a run, or a given file that cannot be used.

use std::io;
use std::path::{Path, PathBuf};

/// An error that prevents the page. Missing parts of a run are not errors: the page lists them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A folder without a recipe.
    #[error("{path} holds no run: there is no recipe.toml in it; {advice}")]
    NoRun {
        /// The folder.
        path: PathBuf,
        /// The folder or action to use instead.
        advice: String,
    },
    /// No run was given.
    #[error("there is no run to report; give the folder of at least one")]
    Nothing,
    /// The operating system reported an error.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// A file of another kind, or one that was cut off.
    #[error("{path} {what}; {advice}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: String,
        /// How to fix it.
        advice: String,
    },
    /// A picture refers to a run that is not in the report.
    #[error("a picture is of run {run}, and the report has {runs}")]
    NoSuchRun {
        /// The index of the run.
        run: usize,
        /// The number of runs.
        runs: usize,
    },
}

impl ReportError {
    /// An error for a damaged file.
    pub(crate) fn damaged(path: &Path, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into(), advice: advice.into() }
    }

    /// An error from the operating system for a file.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}
