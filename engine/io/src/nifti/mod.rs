//! NIfTI-1 and NIfTI-2, the formats of the Neuroimaging Informatics Technology Initiative: `.nii`,
//! `.nii.gz`, and `.hdr` with `.img`; also pairs of Analyze 7.5, from which NIfTI descends, with SPM's `.mat`.
//!
//! Files are recognized by content. Every size is checked before memory is allocated for it. No
//! more of a gzip stream is kept than its header claims, but it is read to its end, so that a
//! damaged or truncated file is an error.

mod analyze;
pub(crate) mod bytes;
mod header_bytes;
mod mat;
mod read;
pub(crate) mod voxels;
mod write;

use std::path::PathBuf;

pub use hearth_image::nifti::{DataType, Header};
pub use read::{read_header, read_nifti, read_nifti_on, read_nifti_values};
pub use write::{LabelAffine, NiftiOptions, write_nifti, write_nifti_labels};

/// The maximum number of bytes of an unpacked file.
pub const MAX_BYTES: u64 = 32 << 30;

/// The error of reading or writing a NIfTI file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NiftiError {
    /// I/O error.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The file is not NIfTI.
    #[error("{path}: {what}")]
    NotNifti {
        /// Path of the file.
        path: PathBuf,
        /// The apparent format of the file.
        what: String,
    },
    /// A field of the header has an invalid value.
    #[error("{path}: header field {field}: {what}")]
    Field {
        /// Path of the file.
        path: PathBuf,
        /// Name of the field in nifti1.h.
        field: &'static str,
        /// The problem.
        what: String,
    },
    /// The file ends early, or is damaged.
    #[error("{path}: {what}")]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// The missing or damaged part.
        what: String,
    },
    /// The file is valid, but not supported.
    #[error("{path}: {what}")]
    Unsupported {
        /// Path of the file.
        path: PathBuf,
        /// The unsupported feature.
        what: String,
    },
    /// The image cannot be stored as requested.
    #[error("{path}: {what}")]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        what: String,
    },
}
