//! Getting the bytes of a file: plain or gzip, never more than expected.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::NiftiError;

/// A file's bytes as they are on disk.
pub(super) struct Stored {
    bytes: Vec<u8>,
    gzip: bool,
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> NiftiError + '_ {
    |source| NiftiError::Io { path: path.to_owned(), source }
}

impl Stored {
    /// Reads the whole file.
    pub(super) fn open(path: &Path) -> Result<Stored, NiftiError> {
        let length = std::fs::metadata(path).map_err(io(path))?;
        if length.is_dir() {
            return Err(NiftiError::NotNifti {
                path: path.to_owned(),
                what: "a folder, expected a NIfTI file".to_owned(),
            });
        }
        if length.len() > super::MAX_BYTES {
            return Err(NiftiError::Unsupported {
                path: path.to_owned(),
                what: format!("{} bytes, more than the limit of {}", length.len(), super::MAX_BYTES),
            });
        }
        let bytes = std::fs::read(path).map_err(io(path))?;
        let gzip = bytes.starts_with(&[0x1f, 0x8b]);
        Ok(Stored { bytes, gzip })
    }

    /// The first `count` bytes, unpacked; fewer where the file ends.
    pub(super) fn head(&self, count: usize, path: &Path) -> Result<Vec<u8>, NiftiError> {
        if !self.gzip {
            return Ok(self.bytes[..count.min(self.bytes.len())].to_vec());
        }
        stream(&self.bytes, count, path)
    }

    /// The first `count` bytes, unpacked.
    ///
    /// `count` must have been checked against [`super::MAX_BYTES`].
    pub(super) fn take(self, count: usize, path: &Path) -> Result<Vec<u8>, NiftiError> {
        let short = |have: usize| NiftiError::Damaged {
            path: path.to_owned(),
            what: format!("the file ends after {have} bytes, the header promises {count}"),
        };
        if !self.gzip {
            let mut bytes = self.bytes;
            if bytes.len() < count {
                return Err(short(bytes.len()));
            }
            bytes.truncate(count);
            return Ok(bytes);
        }
        // Deflate packs at most 1032 to 1: a promise beyond that can't be kept, so no memory is taken for it.
        let most = self.bytes.len().saturating_mul(1032);
        if count > most {
            return Err(NiftiError::Damaged {
                path: path.to_owned(),
                what: format!("{} bytes of gzip hold at most {most}, the header promises {count}", self.bytes.len()),
            });
        }
        // The last four bytes of a gzip member tell its length modulo 2^32. Where that fits the promise, unpack at once.
        let tail = self.bytes.len().checked_sub(4).map(|at| &self.bytes[at..]);
        let told = tail.and_then(|t| t.try_into().ok()).map_or(0, u32::from_le_bytes) as usize;
        if told >= count && told - count <= 1 << 20 {
            let mut out = vec![0; told];
            let unpacked = libdeflater::Decompressor::new().gzip_decompress(&self.bytes, &mut out);
            if unpacked.is_ok_and(|n| n >= count) {
                out.truncate(count);
                return Ok(out);
            }
        }
        // Several members, over 4 GiB, a damaged end, or data behind the image: read exactly what is needed.
        let out = stream(&self.bytes, count, path)?;
        if out.len() < count { Err(short(out.len())) } else { Ok(out) }
    }
}

fn stream(gzip: &[u8], count: usize, path: &Path) -> Result<Vec<u8>, NiftiError> {
    let mut out = Vec::new();
    let read = flate2::read::MultiGzDecoder::new(gzip).take(count as u64).read_to_end(&mut out);
    match read {
        // A stream that breaks after some bytes: the caller says how many are missing.
        Err(_) if !out.is_empty() => Ok(out),
        Err(e) => Err(NiftiError::Damaged { path: path.to_owned(), what: format!("damaged gzip: {e}") }),
        Ok(_) => Ok(out),
    }
}

/// Whether a file can be opened.
pub(super) fn exists(path: &Path) -> bool {
    File::open(path).is_ok()
}
