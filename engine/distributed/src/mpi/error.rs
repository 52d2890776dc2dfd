//! The error of connecting ranks over MPI: [`MpiError`].

use crate::{CommError, PlacementError};

/// The reason why ranks cannot be connected over MPI.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MpiError {
    /// The launcher's variables are invalid.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// No MPI library was found.
    #[error(
        "{started}, but no MPI library was found (looked for {looked}); install that of the launcher, or name its file \
         in HEARTH_MPI"
    )]
    NoLibrary {
        /// The launcher that needs a library.
        started: String,
        /// The names that were tried.
        looked: String,
    },
    /// The library of `HEARTH_MPI` cannot be opened.
    #[error("HEARTH_MPI={name} cannot be opened: {why}")]
    Named {
        /// The library's name.
        name: String,
        /// The error of the system's loader.
        why: String,
    },
    /// A library that is not an MPI library, or lacks a function of MPI 3.
    #[error("{name} lacks {symbol}: it is not a library of MPI 3 or later")]
    NotMpi {
        /// The library's name.
        name: String,
        /// The missing symbol.
        symbol: &'static str,
    },
    /// The library does not belong to the launcher: each rank sees only itself.
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
        /// The advice.
        advice: &'static str,
    },
    /// A function failed while MPI was being set up.
    #[error("MPI cannot be started: {function} of {name} failed with code {code}: {text}")]
    Call {
        /// The library's name.
        name: String,
        /// The function.
        function: &'static str,
        /// The returned code.
        code: i32,
        /// The library's text for the code.
        text: String,
    },
    /// Not all ranks started in time.
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
    /// The system cannot start a thread for the communication.
    #[error("no thread can be started for MPI: {0}")]
    Thread(String),
    /// MPI was opened before in this process, which is possible only once.
    #[error("MPI was opened before in this process, and can be opened once only")]
    AlreadyOpen,
}
