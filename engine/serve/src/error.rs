//! Why a server does not start: [`ServeError`].

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server does not start, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// There is nothing to serve.
    #[error("there is no model to serve")]
    NoModel,
    /// Two models have the same name.
    #[error("two models are called {0}: give one of them another name")]
    SameName(String),
    /// Others could reach the server, and it is not protected.
    #[error(
        "{address} can be reached from other machines: give --tls-cert, --tls-key and --token, or bind to 127.0.0.1 \
         and let a proxy do both"
    )]
    Unprotected {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// The address is taken, or not of this machine.
    #[error("cannot listen on {address}")]
    Bind {
        /// Where it was to listen.
        address: String,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// A file or folder that cannot be used.
    #[error("cannot {doing} {path}")]
    File {
        /// What was done.
        doing: &'static str,
        /// With which file or folder.
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
        /// What is wrong with it, and what was expected.
        why: String,
    },
    /// An option whose value cannot be used.
    #[error("{0}")]
    Option(String),
    /// The operating system gave no thread, or no signal.
    #[error("cannot start the server")]
    Start(#[source] std::io::Error),
}

impl ServeError {
    pub(crate) fn file(doing: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::File { doing, path: path.into(), source }
    }
}
