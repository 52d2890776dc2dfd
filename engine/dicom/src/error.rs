//! Errors and their messages.

use std::path::PathBuf;

use crate::finding::Finding;

/// A DICOM file could not be read. Every variant names its file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DicomError {
    /// An I/O error.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not DICOM.
    #[error("{path}: not a DICOM file (no DICM at byte 128, and it does not begin with a DICOM data set)")]
    NotDicom {
        /// The file.
        path: PathBuf,
    },
    /// The file ends early, contradicts itself, or cannot be parsed.
    #[error("{path}: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
    /// A required attribute is missing, or its value is invalid.
    #[error("{path}: attribute {name}: {what}")]
    Attribute {
        /// The file.
        path: PathBuf,
        /// The attribute's name in the standard.
        name: &'static str,
        /// The problem.
        what: String,
    },
    /// The file is valid, but not supported.
    #[error("{path}: {what}")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The unsupported feature, and what to do.
        what: String,
    },
    /// The pixels of a frame could not be decoded.
    #[error("{path}: frame {frame}: {what}")]
    Decode {
        /// The file.
        path: PathBuf,
        /// Number of the frame, from 1.
        frame: usize,
        /// The decoder's error.
        what: String,
    },
    /// Reading would need more memory than the limits allow.
    #[error("{path}: {what}")]
    Limit {
        /// The file.
        path: PathBuf,
        /// The required amount, and the limit.
        what: String,
    },
    /// The requested series or object does not exist.
    #[error("{path}: {what}")]
    Nothing {
        /// File or folder.
        path: PathBuf,
        /// The requested item, and the existing ones.
        what: String,
    },
    /// There are several series where one was requested.
    #[error("{path}: {} series of images; read one of them by `scan`:\n  {}", series.len(), series.join("\n  "))]
    Several {
        /// The folder.
        path: PathBuf,
        /// A line for each series.
        series: Vec<String>,
    },
    /// There is a series, but also files that cannot be read: slices may be missing.
    #[error(
        "{path}: {count} file(s) can't be read, so slices may be missing; repair them, or move them away to read the rest: {first}"
    )]
    Incomplete {
        /// The folder.
        path: PathBuf,
        /// The error of the first of those files.
        first: Box<DicomError>,
        /// The number of such files.
        count: usize,
    },
    /// A series has faults that must be accepted by name before it is read.
    #[error("series {series}: {}\nto read it all the same: ReadOptions::{}", texts(findings), accepting(findings))]
    Findings {
        /// The series.
        series: String,
        /// Its findings.
        findings: Vec<Finding>,
    },
    /// Regions cannot be written: a label without a name, an empty region.
    #[error("regions of the series of {path}: {what}")]
    Regions {
        /// A file of the series.
        path: PathBuf,
        /// The problem, and what to do.
        what: String,
    },
    /// A volume cannot be written.
    #[error("cannot be written as DICOM: {what}")]
    Write {
        /// The reason.
        what: String,
    },
    /// Contours or segments do not lie on the requested grid.
    #[error("{path}: {what}")]
    Grid {
        /// The file.
        path: PathBuf,
        /// The mismatch, and what to do.
        what: String,
    },
}

fn texts(findings: &[Finding]) -> String {
    findings.iter().map(|f| f.text.as_str()).collect::<Vec<_>>().join("\n  ")
}

fn accepting(findings: &[Finding]) -> String {
    findings.iter().map(|f| format!("accept(FindingKind::{})", f.kind)).collect::<Vec<_>>().join(".")
}
