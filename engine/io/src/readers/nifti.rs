use std::path::Path;

use hearth_image::Image;

use super::{Probe, ReadError, ReadOptions, Reader};
use crate::NiftiError;

/// Reads NIfTI-1, NIfTI-2 and pairs of Analyze 7.5; see [`crate::nifti`].
#[derive(Clone, Copy, Debug, schemars::JsonSchema)]
pub struct NiftiReader;

impl Reader for NiftiReader {
    fn name(&self) -> &'static str {
        "NiftiReader"
    }

    fn precedence(&self) -> u32 {
        6
    }

    fn suffixes(&self) -> &[&str] {
        &[".nii", ".nii.gz", ".hdr", ".img", ".hdr.gz", ".img.gz"]
    }

    fn recognizes(&self, probe: &Probe<'_>) -> bool {
        let at = |range: std::ops::Range<usize>| probe.start.get(range);
        matches!(at(344..348), Some(b"n+1\0" | b"ni1\0")) || matches!(at(4..8), Some(b"n+2\0" | b"ni2\0"))
    }

    fn read(&self, path: &Path, _: &ReadOptions) -> Result<Image, ReadError> {
        crate::read_nifti(path).map_err(|error| read_error(path, error))
    }
}

/// The error of a reader. The message of an I/O error is only the cause; the other messages already start
/// with the file's name.
pub(super) fn read_error(path: &Path, error: NiftiError) -> ReadError {
    match error {
        NiftiError::Io { source, .. } => ReadError::new(path, source),
        NiftiError::Field { field, what, .. } => ReadError::new(path, format!("header field {field}: {what}")),
        NiftiError::NotNifti { what, .. }
        | NiftiError::Damaged { what, .. }
        | NiftiError::Unsupported { what, .. }
        | NiftiError::Write { what, .. } => ReadError::new(path, what),
    }
}

hearth_registry::entry!(dyn Reader => NiftiReader, aliases: &["NibabelReader"], example: "", build: |_| Ok(Box::new(NiftiReader)));
