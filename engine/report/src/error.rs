//! What ends a report: a folder that holds no run, a file that was asked for and cannot be used.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no page. What a run merely lacks is no error: the page names it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A folder without a recipe.
    #[error("{path} holds no run: there is no recipe.toml in it; {advice}")]
    NoRun {
        /// The folder.
        path: PathBuf,
        /// What to give in its place.
        advice: String,
    },
    /// No run was given.
    #[error("there is no run to report; give the folder of at least one")]
    Nothing,
    /// The operating system refused.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// A file is another one, or was cut off.
    #[error("{path} {what}; {advice}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
        /// What to do.
        advice: String,
    },
    /// A picture belongs to no run of the report.
    #[error("a picture is of run {run}, and the report has {runs}")]
    NoSuchRun {
        /// The run's place.
        run: usize,
        /// How many there are.
        runs: usize,
    },
}

impl ReportError {
    /// A file that is damaged.
    pub(crate) fn damaged(path: &Path, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into(), advice: advice.into() }
    }

    /// A file that the operating system refused.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}
