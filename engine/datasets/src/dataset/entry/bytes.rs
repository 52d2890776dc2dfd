//! The storage of an entry's bytes.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes with random access from several threads at once.
pub(crate) trait Bytes: Send + Sync + Debug {
    /// Passes `length` bytes from `at` on to `look`.
    fn with(&self, at: u64, length: usize, look: &mut dyn FnMut(&[u8])) -> io::Result<()>;

    /// The number of bytes of memory in use.
    fn held(&self) -> usize {
        0
    }
}

/// The number of bytes read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter(Arc<AtomicU64>);

impl Counter {
    pub fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// An open file.
#[derive(Debug)]
pub(crate) struct FileBytes {
    file: File,
    counter: Counter,
}

impl FileBytes {
    pub fn new(file: File, counter: Counter) -> Self {
        FileBytes { file, counter }
    }
}

impl Bytes for FileBytes {
    fn with(&self, at: u64, length: usize, look: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut bytes = vec![0; length];
        read_exact_at(&self.file, &mut bytes, at)?;
        self.counter.add(length);
        look(&bytes);
        Ok(())
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => (bytes, at) = (&mut bytes[n..], at + n as u64),
        }
    }
    Ok(())
}

/// Bytes in memory.
pub(crate) struct MemoryBytes(Box<[u8]>);

impl MemoryBytes {
    pub fn new(bytes: Vec<u8>) -> Self {
        MemoryBytes(bytes.into())
    }
}

impl Debug for MemoryBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes in memory", self.0.len())
    }
}

impl Bytes for MemoryBytes {
    fn with(&self, at: u64, length: usize, look: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let part = slice(&self.0, at, length)?;
        look(part);
        Ok(())
    }

    fn held(&self) -> usize {
        self.0.len()
    }
}

/// A part of bytes in memory.
pub(crate) fn slice(bytes: &[u8], at: u64, length: usize) -> io::Result<&[u8]> {
    usize::try_from(at)
        .ok()
        .and_then(|at| bytes.get(at..at.checked_add(length)?))
        .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
