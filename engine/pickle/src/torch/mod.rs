//! Files of `torch.save` of any PyTorch version: the saved object, and the values of its tensors.
//!
//! - Since 1.6: an archive (zip) of `data.pkl` and an entry for each storage.
//! - From 0.1.10 on: a stream of pickles (a number, a version, facts of the machine, the saved
//!   object, the keys of the storages), followed by the values.
//! - Before: an archive (tar) of `storages`, `tensors` and `pickle`.
//!
//! A single pickle is read as well; tensors require one of the other formats.

mod archive;
mod stream;
mod tar;

use std::io::Read;
use std::path::Path;

use crate::object::Pickled;
use crate::tensor::{Storage, Tensor};
use crate::{Options, PickleError, parse};

/// An error of reading a file of `torch.save`.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A pickle in the file cannot be read.
    #[error(transparent)]
    Pickle(#[from] PickleError),
    /// The file has none of the known headers.
    #[error("not a PyTorch checkpoint: no ZIP, TAR, legacy or pickle header found")]
    Unknown,
    /// The file is damaged.
    #[error("{0}")]
    Invalid(String),
}

impl From<String> for SavedError {
    fn from(what: String) -> Self {
        SavedError::Invalid(what)
    }
}

impl From<&str> for SavedError {
    fn from(what: &str) -> Self {
        SavedError::Invalid(what.to_owned())
    }
}

type Result<T> = std::result::Result<T, SavedError>;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A zip file of PyTorch 1.6 and later.
    Archive,
    /// A sequence of pickles.
    Stream,
    /// A tar file of PyTorch before 0.1.10.
    Tar,
    /// A single pickle, without tensors.
    Pickle,
}

/// A file of `torch.save`.
#[derive(Debug)]
pub struct Saved {
    pickled: Pickled,
    source: Source,
}

/// The source of the storages.
#[derive(Debug)]
enum Source {
    Archive(archive::Archive),
    Stream(stream::Stream),
    Tar(tar::Tar),
    None,
}

/// The decimal digits of the number at the beginning of a stream, as in protocol 0.
const MAGIC_TEXT: &[u8] = b"119547037146038801333356";

/// The same number, as in the other protocols.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/// The format of a file with this beginning.
fn layout(header: &[u8]) -> Option<Layout> {
    let near = &header[..header.len().min(64)];
    let has = |magic: &[u8]| near.windows(magic.len()).any(|bytes| bytes == magic);
    if header.starts_with(b"PK\x03\x04") || header.starts_with(b"PK\x05\x06") {
        return Some(Layout::Archive);
    }
    if header.get(257..262) == Some(b"ustar") {
        return Some(Layout::Tar);
    }
    if has(&MAGIC) || has(MAGIC_TEXT) {
        return Some(Layout::Stream);
    }
    // The length before the JSON of safetensors may look like the beginning of a pickle.
    let safetensors = header.len() > 8 && header[8] == b'{' && header[4..8] == [0; 4];
    let begins = header.first().is_some_and(|first| b"\x80(}]c".contains(first));
    (begins && !safetensors).then_some(Layout::Pickle)
}

impl Saved {
    /// Opens a file and parses the saved object. `most` limits the bytes of its pickle, since an
    /// archive can claim any size.
    ///
    /// # Errors
    /// If the file is not from PyTorch, is damaged, or is from a big-endian machine; and as
    /// [`parse`].
    pub fn open(path: &Path, options: &Options, most: u64) -> Result<Self> {
        let mut header = Vec::new();
        hearth_files::open(path)?.take(512).read_to_end(&mut header)?;
        let file = hearth_files::open(path)?;
        Ok(match layout(&header).ok_or(SavedError::Unknown)? {
            Layout::Archive => {
                let (archive, pickle) = archive::Archive::open(file, most)?;
                Saved { pickled: parse(&pickle, options)?.0, source: Source::Archive(archive) }
            }
            Layout::Stream => {
                let (stream, pickled) = stream::Stream::open(file, options, most)?;
                Saved { pickled, source: Source::Stream(stream) }
            }
            Layout::Tar => {
                let (tar, pickled) = tar::Tar::open(file, options)?;
                Saved { pickled, source: Source::Tar(tar) }
            }
            Layout::Pickle => {
                let bytes = limited(file, most)?;
                Saved { pickled: parse(&bytes, options)?.0, source: Source::None }
            }
        })
    }

    /// The saved object.
    pub fn pickled(&self) -> &Pickled {
        &self.pickled
    }

    /// The format of the file.
    pub fn layout(&self) -> Layout {
        match self.source {
            Source::Archive(_) => Layout::Archive,
            Source::Stream(_) => Layout::Stream,
            Source::Tar(_) => Layout::Tar,
            Source::None => Layout::Pickle,
        }
    }

    /// The number of bytes that the file has for a storage; at most the expected number.
    pub fn held(&self, storage: &Storage) -> u64 {
        let held = match &self.source {
            Source::Archive(archive) => archive.held(&storage.key),
            Source::Stream(stream) => stream.held(&storage.key),
            Source::Tar(tar) => tar.held(&storage.key),
            Source::None => 0,
        };
        held.min(storage.length as u64)
    }

    /// The values of a tensor of this file, row-major, little-endian.
    ///
    /// # Errors
    /// If the file lacks the storage or a part of it, or its checksum differs.
    pub fn read(&self, tensor: &Tensor) -> Result<Vec<u8>> {
        let key = &tensor.storage.key;
        let size = tensor.dtype.size();
        let (start, count) = (tensor.offset * size, (tensor.end - tensor.offset) * size);
        // A tensor without values may have no storage.
        if count == 0 {
            return Ok(Vec::new());
        }
        let window = match &self.source {
            Source::Archive(archive) => archive.read(key, start as u64, count as u64)?,
            Source::Stream(stream) => stream.read(key, start as u64, count)?,
            Source::Tar(tar) => tar.read(key, start, count)?,
            Source::None => return Err("a pickle by itself has no values of tensors".into()),
        };
        Ok(tensor.gathered(window))
    }
}

/// Reads all bytes, with a limit.
fn limited(from: impl Read, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(format!("its pickle has more than {most} bytes").into()),
        false => Ok(bytes),
    }
}
