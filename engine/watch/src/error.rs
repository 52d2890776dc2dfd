//! What ends watching before it began: [`WatchError`].

use std::io;
use std::path::PathBuf;

use hearth_report::ReportError;

/// Why nothing can be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The folder is not there.
    #[error("there is no folder {path}; check its name, or wait for it: --wait")]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// The folder is there and holds something else.
    #[error("{path} {what}; give the folder that `hearth train --out` made, or one that holds such folders")]
    NoRun {
        /// The folder.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The run cannot be read.
    #[error(transparent)]
    Unread(#[from] ReportError),
    /// The terminal refused.
    #[error("cannot draw in this terminal: {0}; lines need none: hearth watch RUN | cat")]
    Terminal(#[source] io::Error),
    /// No page can be served.
    #[error("cannot serve a page at 127.0.0.1:{port}: {why}; give another --port, or 0 for any")]
    Server {
        /// The port that was asked for.
        port: u16,
        /// The operating system's words.
        why: String,
    },
    /// The operating system has no random numbers.
    #[error("cannot make a token for the page: the operating system gives no random numbers ({0})")]
    Random(String),
}
