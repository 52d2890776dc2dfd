//! Errors of checkpoints.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why a checkpoint could not be written, found or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Writing failed; the temporary folder is removed and earlier checkpoints are as they were.
    #[error("cannot write checkpoint {path}: {step}: {hint}; earlier checkpoints are untouched")]
    Write {
        /// The checkpoint folder.
        path: PathBuf,
        /// The step that failed.
        step: String,
        /// The reason, and for a full disk how much is needed.
        hint: String,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// An old checkpoint could not be deleted; nothing else is lost.
    #[error("cannot delete the old checkpoint {path}: {source}")]
    Delete {
        /// The checkpoint's folder.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// A folder could not be read at all.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The folder or file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// The tag is not valid in a folder's name.
    #[error(
        "`{tag}` cannot be a checkpoint's tag: use 1 to 64 letters, digits, `_`, `-` and `.`, not beginning with `.`"
    )]
    Tag {
        /// The tag.
        tag: String,
    },
    /// A file's name points outside of the checkpoint.
    #[error("`{name}` cannot be the name of a file in a checkpoint: relative, without `..`, of at most 200 characters")]
    FileName {
        /// The name.
        name: String,
    },
    /// The requested checkpoint is damaged.
    #[error("checkpoint {path} is damaged: {damage}")]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// The damage.
        damage: Damage,
    },
    /// The checkpoint was written by another run than the one that reads it.
    #[error(
        "checkpoint {path} is of another run ({}), this one is {run}; move it out of the folder",
        found.as_deref().unwrap_or("without a name")
    )]
    OtherRun {
        /// The checkpoint's folder.
        path: PathBuf,
        /// The run in its manifest.
        found: Option<String>,
        /// The run that reads it.
        run: String,
    },
    /// The folder holds no intact checkpoint.
    #[error("no intact checkpoint in {dir}{skipped}")]
    None {
        /// The folder of checkpoints.
        dir: PathBuf,
        /// The skipped folders, with reasons.
        skipped: String,
    },
    /// A part of an intact checkpoint does not fit what it is loaded into.
    #[error("checkpoint {path}: {part} does not fit: {why}")]
    Mismatch {
        /// The folder.
        path: PathBuf,
        /// The file.
        part: &'static str,
        /// Every difference.
        why: String,
    },
}

impl CheckpointError {
    pub(crate) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read { path: path.to_owned(), source }
    }

    pub(crate) fn write(path: &Path, step: impl Into<String>, needed: u64, source: io::Error) -> Self {
        let hint = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                let (size, unit) = if needed < 1_000_000 { (1e3, "kB") } else { (1e6, "MB") };
                let needed = needed as f64 / size;
                format!("the disk is full, the checkpoint needs {needed:.1} {unit}: free some space and resume the run")
            }
            io::ErrorKind::PermissionDenied => "permission denied; check who owns the run's folder".to_owned(),
            io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
            _ => source.to_string(),
        };
        Self::Write { path: path.to_owned(), step: step.into(), hint, source }
    }
}

/// The damage of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The manifest was never written: the writer was interrupted.
    #[error("it has no manifest.json, so writing it was interrupted")]
    NoManifest,
    /// The manifest does not parse, or its own sum is wrong.
    #[error("manifest.json {0}")]
    BadManifest(String),
    /// A file that the manifest lists is missing.
    #[error("{0} is missing")]
    Missing(String),
    /// A file's length differs from the manifest's.
    #[error("{file} has {found} bytes instead of {expected}")]
    Length {
        /// The file.
        file: String,
        /// The actual number of bytes.
        found: u64,
        /// The expected number of bytes.
        expected: u64,
    },
    /// A file's contents have changed since it was written.
    #[error("{0} has changed since it was written (its BLAKE3 hash differs)")]
    Sum(String),
    /// A file cannot be read.
    #[error("{file} cannot be read: {why}")]
    Unreadable {
        /// The file.
        file: String,
        /// The operating system's error.
        why: String,
    },
}
