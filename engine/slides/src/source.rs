//! Byte sources that any number of threads can read at once, without a shared position or a lock.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::Fault;

/// A file, or bytes in memory.
#[derive(Debug)]
pub(crate) enum Source {
    File { file: File, len: u64 },
    Bytes(Vec<u8>),
}

impl Source {
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let file = hearth_files::open(path)?;
        let meta = file.metadata()?;
        if meta.is_dir() {
            return Err(Fault::NotTiff("a folder, not a file".into()));
        }
        Ok(Source::File { file, len: meta.len() })
    }

    pub fn len(&self) -> u64 {
        match self {
            Source::File { len, .. } => *len,
            Source::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Reads bytes `offset..offset + len`, which must lie within the file; therefore at most the
    /// file's length is allocated.
    pub fn read(&self, offset: u64, len: u64, what: &str) -> Result<Vec<u8>, Fault> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len());
        let (Some(_), Ok(size)) = (end, usize::try_from(len)) else {
            return Err(Fault::damaged(format!(
                "{what}: {len} bytes from byte {offset}, but the file ends at byte {}",
                self.len()
            )));
        };
        match self {
            Source::File { file, .. } => {
                let mut bytes = vec![0; size];
                read_exact_at(file, &mut bytes, offset)?;
                Ok(bytes)
            }
            // `end` lies within a vector, so the offsets fit `usize`.
            Source::Bytes(bytes) => Ok(bytes[offset as usize..][..size].to_vec()),
        }
    }
}

/// Reads a [`Source`] from front to back, for parsers that need a position. Each cursor has its own
/// position.
pub(crate) struct Cursor<'a> {
    source: &'a Source,
    at: u64,
}

impl<'a> Cursor<'a> {
    pub fn new(source: &'a Source, at: u64) -> Self {
        Cursor { source, at }
    }
}

impl Read for Cursor<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = (out.len() as u64).min(self.source.len().saturating_sub(self.at)) as usize;
        match self.source {
            Source::File { file, .. } => read_exact_at(file, &mut out[..len], self.at)?,
            // If `len` is above 0, the position lies within the vector.
            Source::Bytes(bytes) if len > 0 => out[..len].copy_from_slice(&bytes[self.at as usize..][..len]),
            Source::Bytes(_) => {}
        }
        self.at += len as u64;
        Ok(len)
    }
}

impl Seek for Cursor<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.source.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                bytes = &mut bytes[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}
