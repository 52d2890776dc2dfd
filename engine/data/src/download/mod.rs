//! Public data sets from the network (feature `download`): [`decathlon`] and [`Tcia`].
//!
//! A download goes on where it broke off, is checked against a checksum, and comes under its name
//! when it is whole. Archives are unpacked beside their place and moved there; what leads out of
//! the folder, links and devices are refused.

mod archive;
mod decathlon;
mod fetch;
mod tcia;

pub use archive::{ArchiveLimits, unpack};
pub use decathlon::{DECATHLON_TASKS, DecathlonTask, decathlon};
pub use fetch::{Checksum, FetchOptions, fetch};
pub use tcia::{Tcia, TciaOptions};

use std::path::{Path, PathBuf};

/// A download did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownloadError {
    /// The server answered, but not with the file.
    #[error("{url}: the server says {status}{}", advice(*status))]
    Status {
        /// What was asked for.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The connection failed, again and again.
    #[error("{url}: {what} ({tries} tries); what came is kept, and the next try goes on from there")]
    Network {
        /// What was asked for.
        url: String,
        /// The last failure.
        what: String,
        /// How often it was tried.
        tries: u32,
    },
    /// The server's answer makes no sense.
    #[error("{url}: {what}")]
    Answer {
        /// What was asked for.
        url: String,
        /// What is wrong.
        what: String,
    },
    /// What came is not what was published.
    #[error("{path}: the checksum is {found}, expected {expected}; delete the file and try again")]
    Checksum {
        /// The file.
        path: PathBuf,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// More than the limit.
    #[error("{what} is larger than the limit of {limit} bytes")]
    TooLarge {
        /// What was asked for, or unpacked.
        what: String,
        /// The limit.
        limit: u64,
    },
    /// An archive can't be unpacked, or must not be.
    #[error("{path}: {what}")]
    Archive {
        /// The archive.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What came is not DICOM, or damaged.
    #[error(transparent)]
    Dicom(#[from] hearth_dicom::DicomError),
    /// What came is not a data set.
    #[error(transparent)]
    Data(Box<crate::DataError>),
}

impl DownloadError {
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> DownloadError + '_ {
        |source| DownloadError::Io { path: path.to_owned(), source }
    }
}

fn advice(status: u16) -> &'static str {
    match status {
        401 | 403 => " (not allowed): it may need an account",
        404 | 410 => " (not found): has it moved?",
        _ => "",
    }
}
