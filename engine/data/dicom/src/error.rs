//! What can go wrong, and how it is told.

use std::path::PathBuf;

use crate::finding::Finding;

/// Something DICOM could not be read. Every variant names its file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DicomError {
    /// The file system said no.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is something else.
    #[error("{path}: not a DICOM file (no DICM at byte 128, and it does not begin with a DICOM data set)")]
    NotDicom {
        /// The file.
        path: PathBuf,
    },
    /// The file ends early, contradicts itself, or can't be parsed.
    #[error("{path}: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// An attribute that is needed is missing, or its value can't be.
    #[error("{path}: attribute {name}: {what}")]
    Attribute {
        /// The file.
        path: PathBuf,
        /// Its name in the standard.
        name: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The file is sound, but not something we take.
    #[error("{path}: {what}")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What it is, and what to do.
        what: String,
    },
    /// The pixels of a frame could not be decoded.
    #[error("{path}: frame {frame}: {what}")]
    Decode {
        /// The file.
        path: PathBuf,
        /// Number of the frame, from 1.
        frame: usize,
        /// What the decoder said.
        what: String,
    },
    /// More than the limits allow would have to be held in memory.
    #[error("{path}: {what}")]
    Limit {
        /// The file.
        path: PathBuf,
        /// How much, and which limit.
        what: String,
    },
    /// There is no series of images, or no such thing, where one was asked for.
    #[error("{path}: {what}")]
    Nothing {
        /// File or folder.
        path: PathBuf,
        /// What was looked for, and what is there instead.
        what: String,
    },
    /// There are several series where one was asked for.
    #[error("{path}: {} series of images; read one of them by `scan`:\n  {}", series.len(), series.join("\n  "))]
    Several {
        /// The folder.
        path: PathBuf,
        /// A line for each.
        series: Vec<String>,
    },
    /// A series is there, but also files that can't be read: some of its slices may be missing.
    #[error(
        "{path}: {count} file(s) can't be read, so slices may be missing; mend them, or move them away to read the rest: {first}"
    )]
    Incomplete {
        /// The folder.
        path: PathBuf,
        /// What is wrong with the first of those files.
        first: Box<DicomError>,
        /// How many there are.
        count: usize,
    },
    /// A series has faults that must be accepted by name before it is read.
    #[error("series {series}: {}\nto read it all the same: ReadOptions::{}", texts(findings), accepting(findings))]
    Findings {
        /// Which series.
        series: String,
        /// Its faults.
        findings: Vec<Finding>,
    },
    /// Contours or segments don't lie on the grid that was asked for.
    #[error("{path}: {what}")]
    Grid {
        /// The file.
        path: PathBuf,
        /// What does not fit, and what to do.
        what: String,
    },
}

fn texts(findings: &[Finding]) -> String {
    findings.iter().map(|f| f.text.as_str()).collect::<Vec<_>>().join("\n  ")
}

fn accepting(findings: &[Finding]) -> String {
    findings.iter().map(|f| format!("accept(FindingKind::{})", f.kind)).collect::<Vec<_>>().join(".")
}
