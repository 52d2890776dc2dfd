//! Why ranks cannot be connected over MPI: [`MpiError`].

use crate::{CommError, PlacementError};

/// Why ranks cannot be connected over MPI.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MpiError {
    /// The launcher's variables make no sense.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// No MPI library was found.
    #[error(
        "{started}, but no MPI library was found (looked for {looked}); install that of the launcher, or name its file \
         in HEARTH_MPI"
    )]
    NoLibrary {
        /// Who wants one.
        started: String,
        /// The names that were tried.
        looked: String,
    },
    /// The library of `HEARTH_MPI` cannot be opened.
    #[error("HEARTH_MPI={name} cannot be opened: {why}")]
    Named {
        /// Its name.
        name: String,
        /// What the system's loader says.
        why: String,
    },
    /// A library that is not one of MPI, or lacks a function of MPI 3.
    #[error("{name} lacks {symbol}: it is not a library of MPI 3 or later")]
    NotMpi {
        /// Its name.
        name: String,
        /// The missing symbol.
        symbol: &'static str,
    },
    /// The library does not belong to the launcher, so that each rank sees itself only.
    #[error("{launcher} started {expected} ranks, but {name} ({version}) connects {found}: {advice}")]
    World {
        /// The launcher.
        launcher: String,
        /// The number of ranks that it started.
        expected: usize,
        /// The library's name.
        name: String,
        /// The library's version.
        version: String,
        /// The number of ranks that the library sees.
        found: usize,
        /// What to do.
        advice: &'static str,
    },
    /// A function failed while MPI was being set up.
    #[error("MPI cannot be started: {function} of {name} failed with code {code}: {text}")]
    Call {
        /// The library's name.
        name: String,
        /// The function.
        function: &'static str,
        /// What it returned.
        code: i32,
        /// What the library says of it.
        text: String,
    },
    /// The ranks did not come together.
    #[error(
        "MPI cannot be started: {who} has waited {seconds} s for the other ranks; one of them has not started, has ended, \
         or cannot be reached"
    )]
    Late {
        /// This rank and its host.
        who: String,
        /// The deadline, in seconds.
        seconds: f64,
    },
    /// The first exchange between the ranks failed.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// The system has no thread for the communication.
    #[error("no thread can be started for MPI: {0}")]
    Thread(String),
    /// MPI was opened before; a process can do it once.
    #[error("MPI was opened before in this process, and can be opened once only")]
    AlreadyOpen,
}
