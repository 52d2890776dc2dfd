//! Maps frames to the bytes of a file.

use dicom_dictionary_std::tags;

use super::Header;
use crate::codec::Compression;
use crate::error::Fault;
use crate::limits::Limits;
use crate::source::Source;

const ITEM: [u8; 4] = [0xFE, 0xFF, 0x00, 0xE0];
const END: [u8; 4] = [0xFE, 0xFF, 0xDD, 0xE0];

/// The positions of the frames of a file.
#[derive(Debug)]
pub(super) enum Frames {
    /// Contiguous frames of `size` bytes each.
    Native { offset: u64, size: u64 },
    /// Fragments: the first item of each frame, and the end of the last frame.
    Fragments { starts: Vec<u64>, end: u64 },
}

impl Frames {
    /// Finds `count` frames of `size` bytes of pixels each; checks that the last one is complete.
    pub fn find(
        source: &Source,
        header: &Header,
        compression: Option<Compression>,
        count: usize,
        size: u64,
        limits: &Limits,
    ) -> Result<Self, Fault> {
        let Some(pixels) = header.pixels else {
            return Err(Fault::damaged("no pixels (PixelData): truncated, or only a header"));
        };
        match (pixels.length, compression) {
            (Some(length), None) => {
                let wanted = size.checked_mul(count as u64);
                if wanted.is_none_or(|wanted| wanted > length) {
                    return Err(Fault::damaged(format!(
                        "{length} bytes of pixels are too few for {count} frames of {size} bytes"
                    )));
                }
                Ok(Frames::Native { offset: pixels.offset, size })
            }
            (None, Some(compression)) => Self::fragments(source, header, pixels.offset, compression, count, limits),
            (Some(_), Some(_)) => {
                Err(Fault::damaged("the transfer syntax has pixels in fragments, but there are none"))
            }
            (None, None) => Err(Fault::damaged("the pixels are in fragments, but the transfer syntax has none")),
        }
    }

    fn fragments(
        source: &Source,
        header: &Header,
        offset: u64,
        compression: Compression,
        count: usize,
        limits: &Limits,
    ) -> Result<Self, Fault> {
        let Some(table) = item(source, offset)? else {
            return Err(Fault::damaged("pixels without fragments"));
        };
        if table > limits.tag_bytes {
            return Err(Fault::Limit(format!("an offset table of {table} bytes, {} are allowed", limits.tag_bytes)));
        }
        let first = offset + 8 + table;
        let offsets = match header.longs(tags::EXTENDED_OFFSET_TABLE).filter(|longs| !longs.is_empty()) {
            Some(longs) => longs,
            None => {
                let bytes = source.read(offset + 8, table, "the offset table")?;
                bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word).into()).collect()
            }
        };
        // Offsets of 32 bits are wrong in files beyond 4 GiB; then the items themselves are
        // counted.
        let starts: Option<Vec<u64>> = offsets.iter().map(|at| first.checked_add(*at)).collect();
        let sound = |starts: &Vec<u64>| {
            starts.len() == count
                && starts[0] == first
                && starts.is_sorted_by(|a, b| a < b)
                && starts.iter().all(|at| *at < source.len())
        };
        if let Some(starts) = starts.filter(sound) {
            let mut end = starts[count - 1];
            while let Some(length) = item(source, end)? {
                end += 8 + length;
            }
            return Ok(Frames::Fragments { starts, end });
        }
        let mut items = Vec::new();
        let mut end = first;
        while let Some(length) = item(source, end)? {
            items.push(end);
            if items.len() as u64 > limits.tag_bytes / 8 {
                return Err(Fault::Limit(format!("more than {} fragments of pixels", items.len() - 1)));
            }
            end += 8 + length;
        }
        let total = items.len();
        if total < count {
            return Err(Fault::damaged(format!("{total} fragments of pixels for {count} frames: truncated")));
        }
        let starts = match (count, total > count) {
            (_, false) => items,
            (1, true) => vec![first],
            _ => items.into_iter().filter(|at| starts_stream(source, *at, compression)).collect(),
        };
        if starts.len() != count || starts[0] != first {
            return Err(Fault::damaged(format!(
                "{total} fragments of pixels for {count} frames, and no offset table that assigns them"
            )));
        }
        Ok(Frames::Fragments { starts, end })
    }

    /// The bytes of all frames together.
    pub fn stored(&self, count: usize) -> u64 {
        match self {
            Frames::Native { size, .. } => size.saturating_mul(count as u64),
            Frames::Fragments { starts, end } => end - starts[0],
        }
    }

    /// The stored bytes of a frame.
    pub fn read(&self, source: &Source, frame: usize) -> Result<Vec<u8>, Fault> {
        let (starts, end) = match self {
            Frames::Native { offset, size } => {
                return source.read(offset + frame as u64 * size, *size, "its pixels");
            }
            Frames::Fragments { starts, end } => (starts, end),
        };
        let begin = starts[frame];
        let end = *starts.get(frame + 1).unwrap_or(end);
        let mut bytes = source.read(begin, end - begin, "its fragments")?;
        let missing = || Fault::damaged("the offset table does not point at its fragments");
        let (header, rest) = bytes.split_first_chunk::<8>().ok_or_else(missing)?;
        if header[..4] == ITEM && length_of(*header) == rest.len() as u64 {
            // Usually a frame is one fragment.
            bytes.drain(..8);
            return Ok(bytes);
        }
        let (mut whole, mut rest) = (Vec::new(), bytes.as_slice());
        while let Some((header, tail)) = rest.split_first_chunk::<8>() {
            let length = usize::try_from(length_of(*header)).ok().filter(|_| header[..4] == ITEM);
            let fragment = length.and_then(|length| tail.split_at_checked(length));
            let (fragment, tail) = fragment.ok_or_else(missing)?;
            whole.extend_from_slice(fragment);
            rest = tail;
        }
        if rest.is_empty() { Ok(whole) } else { Err(missing()) }
    }
}

fn length_of([.., a, b, c, d]: [u8; 8]) -> u64 {
    u32::from_le_bytes([a, b, c, d]).into()
}

/// The length of the fragment whose item begins at `at`; `None` at the end of the fragments. A file
/// may lack only the closing delimiter.
fn item(source: &Source, at: u64) -> Result<Option<u64>, Fault> {
    if at >= source.len() {
        return Ok(None);
    }
    let header = source.read(at, 8, "a fragment of pixels")?;
    let header = header.first_chunk::<8>().copied().unwrap_or_default();
    let [a, b, c, d, ..] = header;
    if [a, b, c, d] == END {
        return Ok(None);
    }
    if [a, b, c, d] != ITEM {
        return Err(Fault::damaged(format!("bytes {a:02x} {b:02x} {c:02x} {d:02x} at byte {at}, expected a fragment")));
    }
    let length = length_of(header);
    match (source.len() - at - 8).checked_sub(length) {
        Some(_) => Ok(Some(length)),
        None => {
            let missing = length - (source.len() - at - 8);
            Err(Fault::damaged(format!("a fragment of pixels misses {missing} bytes: the file is truncated")))
        }
    }
}

/// Whether a fragment begins a code stream.
fn starts_stream(source: &Source, item: u64, compression: Compression) -> bool {
    let marker = match compression {
        Compression::Jpeg => [0xFF, 0xD8],
        Compression::Jpeg2000 => [0xFF, 0x4F],
        _ => return false,
    };
    source.read(item + 8, 2, "a fragment").is_ok_and(|bytes| bytes == marker)
}
