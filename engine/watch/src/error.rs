//! Errors that prevent watching: [`WatchError`].

use std::io;
use std::path::PathBuf;

use hearth_report::ReportError;

/// An error that prevents watching.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The folder does not exist.
    #[error("there is no folder {path}; check its name, or wait for it: --wait")]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// The folder exists, but is not a run.
    #[error("{path} {what}; give the folder that `hearth train --out` made, or one that holds such folders")]
    NoRun {
        /// The folder.
        path: PathBuf,
        /// A description of the folder.
        what: &'static str,
    },
    /// The run cannot be read.
    #[error(transparent)]
    Unread(#[from] ReportError),
    /// The terminal reported an error.
    #[error("cannot draw in this terminal: {0}; lines need none: hearth watch RUN | cat")]
    Terminal(#[source] io::Error),
    /// The page cannot be served.
    #[error("cannot serve a page at 127.0.0.1:{port}: {why}; give another --port, or 0 for any")]
    Server {
        /// The requested port.
        port: u16,
        /// The operating system's message.
        why: String,
    },
    /// The operating system does not provide random numbers.
    #[error("cannot make a token for the page: the operating system gives no random numbers ({0})")]
    Random(String),
}
