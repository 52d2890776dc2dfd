//! Blosc2 arrays (`.b2nd`): a contiguous frame of compressed chunks, with the shape in the header.
//!
//! The format is that of <https://github.com/Blosc/c-blosc2>: `README_CFRAME_FORMAT.rst`,
//! `README_CHUNK_FORMAT.rst` and `README_B2ND_METALAYER.rst`, as C-Blosc2 2 and 3 write it. Codecs are
//! BloscLZ, LZ4 (and LZ4HC), zlib and Zstandard; filters are shuffle, bit shuffle and truncated
//! precision. Anything else is an error that names it.
//!
//! Every size is checked against the file before memory is allocated for it.

mod blosclz;
mod chunk;
mod codec;
mod fields;
mod filters;
mod frame;
mod grid;

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use hearth_machine::readable;

use chunk::{Head, Special};
use frame::Frame;
use grid::Grid;

use crate::readers::check_room;

/// The first bytes of a frame, after one byte with the number of header fields.
const MAGIC: [u8; 9] = *b"\xa8b2frame\0";

/// Whether a file that starts with these bytes is a contiguous frame.
pub(crate) fn is_frame(start: &[u8]) -> bool {
    start.get(1..10).is_some_and(|bytes| bytes == MAGIC)
}

/// Whether a folder is a sparse frame, which has one file per chunk.
pub(crate) fn is_sparse_frame(folder: &Path) -> bool {
    folder.join("chunks.b2frame").is_file()
}

/// The number of bytes that any file may claim to hold.
/// A run of one value takes a few bytes whatever its length, so a small file may claim any number
/// of values; the limit is this number of bytes, plus [`RATIO`] for each byte of the file.
const FLOOR: u64 = 4 << 20;

/// The number of bytes that a file may claim for each of its own: the maximum ratio of Deflate.
/// Images are far below.
const RATIO: u64 = 1032;

/// The number of bytes that labels may store for each value, if their size is known from their
/// image: four for the value, times eight because chunks at the edges are padded.
const STORED: u64 = 32;

/// An open array.
#[derive(Debug)]
pub(crate) struct B2nd {
    file: BufReader<File>,
    length: u64,
    frame: Frame,
    grid: Grid,
}

impl B2nd {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// A message without the file's name, if the file cannot be read, is not a frame, is shorter
    /// than its header states, or is not an array.
    pub fn open(path: &Path) -> Result<Self, String> {
        if path.is_dir() && is_sparse_frame(path) {
            return Err("a sparse frame of Blosc2 (a folder with a file for each chunk), which is not supported; \
                 blosc2.open(FOLDER).copy(urlpath=FILE, contiguous=True) makes a file of it"
                .to_owned());
        }
        let file = hearth_files::open(path).map_err(|error| error.to_string())?;
        let length = file.metadata().map_err(|error| error.to_string())?.len();
        let mut file = BufReader::new(file);
        let frame = Frame::read(&mut file, length)?;
        let grid = Grid::parse(&frame.array)?;
        let chunk = grid.chunk_values().checked_mul(frame.value_size);
        if chunk != Some(frame.chunk_bytes) {
            return Err(format!("{grid} contradicts the header's chunk size of {} bytes", frame.chunk_bytes));
        }
        if grid.chunks().checked_mul(frame.chunk_bytes).map(|bytes| bytes as u64) != Some(frame.unpacked) {
            return Err(format!("{grid} contradicts the header's size of {} bytes", frame.unpacked));
        }
        Ok(B2nd { file, length, frame, grid })
    }

    /// The shape; the last axis is the fastest.
    pub fn shape(&self) -> &[usize] {
        self.grid.shape()
    }

    /// NumPy's name of the value type, for instance `<f4`.
    pub fn value_type(&self) -> &str {
        &self.grid.value_type
    }

    /// The number of bytes of a value.
    pub fn value_size(&self) -> usize {
        self.frame.value_size
    }

    /// Fails if the file claims to hold more than its bytes can.
    fn check_claim(&self) -> Result<(), String> {
        let most = FLOOR.saturating_add(RATIO.saturating_mul(self.length));
        if self.frame.unpacked <= most {
            return Ok(());
        }
        let (claims, most) = (readable(self.frame.unpacked), readable(most));
        Err(format!("it claims to hold {claims}; the limit for a file of {} bytes is {most}", self.length))
    }

    /// The number of bytes that [`read`](Self::read) needs.
    fn room(&self) -> u64 {
        let array = self.grid.values() as u64 * self.frame.value_size as u64;
        let index = 8 * self.grid.chunks() as u64;
        // One chunk as stored, and one unpacked.
        array + index + 2 * self.frame.chunk_bytes as u64
    }

    /// Reads the array's bytes in C order.
    ///
    /// Labels that are constant take no space, so their file size gives no limit. `beside` is the
    /// image that they belong to, which has at least as many values. `more` is the number of bytes
    /// that the caller needs for what it makes of the array.
    ///
    /// # Errors
    /// A message, if the array is larger than the memory that this process may use, or chunks are
    /// damaged, were never written, or use an unknown codec or filter.
    pub fn read(&mut self, beside: Option<&B2nd>, more: u64) -> Result<Vec<u8>, String> {
        match beside {
            None => self.check_claim()?,
            Some(image) => {
                image.check_claim()?;
                let values = image.grid.values() as u64;
                if self.frame.unpacked > FLOOR.saturating_add(STORED.saturating_mul(values)) {
                    let claims = readable(self.frame.unpacked);
                    return Err(format!("it claims to hold {claims}, but its image has {values} values"));
                }
            }
        }
        check_room(self.room() + more)?;
        let (chunks, size) = (self.grid.chunks(), self.frame.value_size);
        let index = self.index(chunks)?;
        let mut array = vec![0; self.grid.values() * size];
        let (mut packed, mut unpacked) = (Vec::new(), vec![0; self.frame.chunk_bytes]);
        for (number, entry) in index.as_chunks::<8>().0.iter().enumerate() {
            let failed = |what: String| format!("chunk {number} of {chunks}: {what}");
            let entry = i64::from_le_bytes(*entry);
            match Special::of_entry(entry).map_err(failed)? {
                // The array is initialized with zeros.
                Some(Special::Zeros) => continue,
                Some(special) => special.fill(size, &mut unpacked).map_err(failed)?,
                None => {
                    let at = self.frame.header.checked_add_signed(entry).unwrap_or(u64::MAX);
                    let head = self.packed(at, &mut packed).map_err(failed)?;
                    chunk::unpack(&head, &packed, &mut unpacked).map_err(failed)?;
                }
            }
            self.grid.place(number, &unpacked, size, &mut array);
        }
        Ok(array)
    }

    /// The offset of each chunk after the header, in 8 bytes each.
    fn index(&mut self, chunks: usize) -> Result<Vec<u8>, String> {
        let failed = |what: String| format!("the index of its chunks: {what}");
        let mut packed = Vec::new();
        let head = self.packed(self.frame.index, &mut packed).map_err(failed)?;
        // Each chunk has at least one value, so this is at most eight times the accepted size.
        let mut index = vec![0; chunks * 8];
        chunk::unpack(&head, &packed, &mut index).map_err(failed)?;
        Ok(index)
    }

    /// Reads a chunk as stored.
    fn packed(&mut self, at: u64, packed: &mut Vec<u8>) -> Result<Head, String> {
        let left = self.frame.length.saturating_sub(at);
        let io = |error: std::io::Error| error.to_string();
        self.file.seek(SeekFrom::Start(at)).map_err(io)?;
        packed.clear();
        self.file.by_ref().take(left.min(Head::BYTES as u64)).read_to_end(packed).map_err(io)?;
        let head = Head::parse(packed)?;
        if head.packed as u64 > left {
            return Err(format!("it has {} bytes, but only {left} are left in the file", head.packed));
        }
        let more = (head.packed - Head::BYTES) as u64;
        self.file.by_ref().take(more).read_to_end(packed).map_err(io)?;
        if packed.len() < head.packed {
            return Err(format!("the file ends after {} of its {} bytes", packed.len(), head.packed));
        }
        Ok(head)
    }
}
