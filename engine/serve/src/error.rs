//! Errors of a server's start and run: [`ServeError`].

use std::net::SocketAddr;
use std::path::PathBuf;

/// An error that prevents a start, or ended a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// There is nothing to serve.
    #[error("there is no model to serve")]
    NoModel,
    /// Two models have the same name.
    #[error("two models are called {0}: give one of them another name")]
    SameName(String),
    /// The server could be reached by others without protection.
    #[error(
        "{address} can be reached from other machines: give --tls-cert, --tls-key and --token, or bind to 127.0.0.1 \
         and let a proxy do both"
    )]
    Unprotected {
        /// The address to listen on.
        address: SocketAddr,
    },
    /// The address is in use, or does not belong to this machine.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address to listen on.
        address: String,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// A file or folder that cannot be used.
    #[error("cannot {doing} {path}")]
    File {
        /// The action.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// A certificate, key or token that cannot be used.
    #[error("{path}: {why}")]
    Secret {
        /// The file.
        path: PathBuf,
        /// The problem, and what was expected.
        why: String,
    },
    /// An option whose value cannot be used.
    #[error("{0}")]
    Option(String),
    /// The operating system could not create a thread or a signal handler.
    #[error("cannot start the server")]
    Start(#[source] std::io::Error),
}

impl ServeError {
    pub(crate) fn file(doing: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::File { doing, path: path.into(), source }
    }
}
