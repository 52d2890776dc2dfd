//! Public data sets from the network (feature `download`): [`decathlon`] and [`Tcia`].
//!
//! An interrupted download is resumed, is checked against a checksum, and gets its name when it is
//! complete. Archives are unpacked to a temporary folder and moved; paths outside the folder, links
//! and devices are rejected. Redirects are followed only on the same host, and never to a weaker
//! scheme.

mod archive;
mod decathlon;
mod fetch;
mod redirect;
mod tcia;

pub use archive::{ArchiveLimits, unpack};
pub use decathlon::{DECATHLON_TASKS, DecathlonTask, decathlon};
pub use fetch::{Checksum, FetchOptions, fetch};
pub use tcia::{Tcia, TciaOptions};

use std::path::{Path, PathBuf};

/// A failed download.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownloadError {
    /// The server answered with an error status.
    #[error("{url}: the server answers {status}{}", advice(*status))]
    Status {
        /// Requested URL.
        url: String,
        /// HTTP status.
        status: u16,
    },
    /// The connection failed repeatedly.
    #[error("{url}: {what} ({tries} tries); partial data is kept, and the next try resumes from there")]
    Network {
        /// Requested URL.
        url: String,
        /// Last failure.
        what: String,
        /// Number of tries.
        tries: u32,
    },
    /// The server's answer is invalid.
    #[error("{url}: {what}")]
    Answer {
        /// Requested URL.
        url: String,
        /// What is wrong.
        what: String,
    },
    /// The content does not match the published checksum.
    #[error("{path}: the checksum is {found}, expected {expected}; delete the file and try again")]
    Checksum {
        /// Path of the file.
        path: PathBuf,
        /// Expected checksum.
        expected: String,
        /// Actual checksum.
        found: String,
    },
    /// A download or archive exceeds the limit.
    #[error("{what} is larger than the limit of {limit} bytes")]
    TooLarge {
        /// Name of the download or archive.
        what: String,
        /// Limit in bytes.
        limit: u64,
    },
    /// An archive is damaged, or its content is not allowed.
    #[error("{path}: {what}")]
    Archive {
        /// Path of the archive.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The downloaded data is not DICOM, or damaged.
    #[error(transparent)]
    Dicom(#[from] hearth_dicom::DicomError),
    /// The downloaded data is not a data set.
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
