//! Reads the bytes of a file, plain or gzip. It keeps no more than expected, and checks gzip to its
//! end.

use std::io::{ErrorKind, Read};
use std::path::Path;

use super::NiftiError;
use crate::readers::check_room;

/// A file's bytes as stored on disk.
pub(crate) struct FileBytes {
    bytes: Vec<u8>,
    gzip: bool,
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> NiftiError + '_ {
    |source| NiftiError::Io { path: path.to_owned(), source }
}

impl FileBytes {
    /// Reads the whole file.
    pub(crate) fn open(path: &Path) -> Result<FileBytes, NiftiError> {
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
        let bytes = hearth_files::read(path).map_err(io(path))?;
        let gzip = bytes.starts_with(&[0x1f, 0x8b]);
        Ok(FileBytes { bytes, gzip })
    }

    /// Returns the first `count` bytes, unpacked; fewer if the file ends or breaks before.
    /// [`FileBytes::take`] checks the checksums.
    pub(crate) fn head(&self, count: usize, path: &Path) -> Result<Vec<u8>, NiftiError> {
        if !self.gzip {
            return Ok(self.bytes[..count.min(self.bytes.len())].to_vec());
        }
        start(&self.bytes, count, path)
    }

    /// Returns the first `count` bytes, unpacked. A gzip file is read to its end, so that all
    /// checksums and lengths are verified.
    ///
    /// `count` must have been checked against [`super::MAX_BYTES`].
    pub(crate) fn take(self, count: usize, path: &Path) -> Result<Vec<u8>, NiftiError> {
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
        // Deflate compresses at most 1032 to 1: a larger claim is false, so no memory is allocated
        // for it.
        let most = self.bytes.len().saturating_mul(1032);
        if count > most {
            return Err(NiftiError::Damaged {
                path: path.to_owned(),
                what: format!("{} bytes of gzip hold at most {most}, the header promises {count}", self.bytes.len()),
            });
        }
        let full = |what: String| NiftiError::Unsupported { path: path.to_owned(), what };
        check_room(count as u64).map_err(full)?;
        // The last four bytes of a gzip member hold its length modulo 2^32. If that matches the
        // header, unpack at once.
        let tail = self.bytes.len().checked_sub(4).map(|at| &self.bytes[at..]);
        let length = tail.and_then(|t| t.try_into().ok()).map_or(0, u32::from_le_bytes) as usize;
        if length >= count && length - count <= 1 << 20 {
            let mut out = vec![0; length];
            let unpacked = libdeflater::Decompressor::new().gzip_decompress(&self.bytes, &mut out);
            // The decoder stops after the first member: that is the whole file only if the file
            // ends with this member's checksum.
            if unpacked.is_ok_and(|n| n == length) && self.ends_with_checksum(&out) {
                out.truncate(count);
                return Ok(out);
            }
        }
        // Several members, over 4 GiB, damage, padding, or data after the image: keep what is
        // needed, check the rest.
        let out = checked(&self.bytes, count, path)?;
        if out.len() < count { Err(short(out.len())) } else { Ok(out) }
    }

    /// Whether the last eight bytes are the checksum and length of these values.
    fn ends_with_checksum(&self, values: &[u8]) -> bool {
        let mut crc = libdeflater::Crc::new();
        crc.update(values);
        let mut trailer = [0; 8];
        trailer[..4].copy_from_slice(&crc.sum().to_le_bytes());
        trailer[4..].copy_from_slice(&(values.len() as u32).to_le_bytes());
        self.bytes.ends_with(&trailer)
    }
}

/// Returns the first `count` bytes of a gzip stream, unchecked.
fn start(gzip: &[u8], count: usize, path: &Path) -> Result<Vec<u8>, NiftiError> {
    let mut out = Vec::new();
    let read = flate2::read::MultiGzDecoder::new(gzip).take(count as u64).read_to_end(&mut out);
    match read {
        // A stream that breaks early: the caller reports the number of missing bytes.
        Err(_) if !out.is_empty() => Ok(out),
        Err(e) => Err(NiftiError::Damaged { path: path.to_owned(), what: format!("damaged gzip: {e}") }),
        Ok(_) => Ok(out),
    }
}

/// Returns the first `count` bytes of all members together (fewer if they hold fewer), each member
/// checked to its end.
///
/// NULs after the last member are padding, as added by tapes and some archives; anything else there is
/// ignored with a warning, unless bytes are missing.
pub(crate) fn checked(gzip: &[u8], count: usize, path: &Path) -> Result<Vec<u8>, NiftiError> {
    let damaged = |what: String| NiftiError::Damaged { path: path.to_owned(), what };
    let mut out = Vec::new();
    let mut behind = vec![0; 64 << 10];
    let mut total = 0;
    let mut rest = gzip;
    loop {
        let mut member = flate2::bufread::GzDecoder::new(rest);
        let wanted = (count - out.len()) as u64;
        let mut read = (&mut member).take(wanted).read_to_end(&mut out);
        // A member's checksum and length are compared when its end is read.
        while let Ok(n) = read {
            total += n as u64;
            if total > super::MAX_BYTES {
                let what = format!("unpacks to more than the limit of {} bytes", super::MAX_BYTES);
                return Err(NiftiError::Unsupported { path: path.to_owned(), what });
            }
            read = member.read(&mut behind);
            if matches!(read, Ok(0)) {
                break;
            }
        }
        if let Err(e) = read {
            let have = out.len();
            return Err(damaged(if e.kind() == ErrorKind::UnexpectedEof {
                format!("damaged gzip: the file is cut off ({have} of the {count} bytes promised by the header unpack)")
            } else {
                format!("damaged gzip: {e} ({have} of the {count} bytes promised by the header unpack)")
            }));
        }
        rest = member.into_inner();
        if rest.iter().all(|b| *b == 0) {
            return Ok(out);
        }
        if !rest.starts_with(&[0x1f, 0x8b]) && out.len() >= count {
            let (path, bytes) = (path.display(), rest.len());
            tracing::warn!("{path}: {bytes} bytes after the end of its gzip stream are ignored");
            return Ok(out);
        }
        if !rest.starts_with(&[0x1f, 0x8b]) {
            return Err(damaged(format!("damaged gzip: {} bytes after its end are not gzip", rest.len())));
        }
    }
}

/// Whether a file can be opened.
pub(super) fn exists(path: &Path) -> bool {
    hearth_files::open(path).is_ok()
}
