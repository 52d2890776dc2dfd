//! Maps frames to the bytes of a file.

use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::DicomError;
use crate::open::{PixelElement, Source};
use crate::pixels::PixelFormat;
use crate::syntax::{Codec, TransferSyntax};

/// Reads the bytes of single frames.
#[derive(Clone, Debug)]
pub(crate) struct FrameReader {
    path: PathBuf,
    source: Source,
    syntax: TransferSyntax,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    /// Contiguous frames.
    Native { offset: u64, length: u64 },
    /// The positions of fragments, and the fragments of each frame.
    Fragments { fragments: Vec<Fragment>, frames: Vec<Range<usize>> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fragment {
    /// The offset of the item header, relative to the first fragment's.
    item: u64,
    /// The offset of the bytes in the file.
    offset: u64,
    length: u32,
}

impl FrameReader {
    /// Finds the frames of a file. `offsets` is its extended offset table, if it has one.
    /// Uncompressed pixels must be complete; fragments must lie within the file.
    pub fn new(
        path: &Path,
        element: &PixelElement,
        syntax: &TransferSyntax,
        offsets: Option<&[u64]>,
        format: &PixelFormat,
    ) -> Result<Self, DicomError> {
        let damaged = |what: String| DicomError::Damaged { path: path.to_owned(), what };
        let place = match element.length {
            Some(length) if syntax.codec == Codec::Native => {
                let wanted = match format.bits_allocated {
                    1 => (format.frame_samples() as u64).checked_mul(format.frames as u64).map(|b| b.div_ceil(8)),
                    _ => format.native_bytes().checked_mul(format.frames as u64),
                };
                if wanted.is_none_or(|wanted| wanted > length) {
                    let PixelFormat { frames, columns, rows, samples, bits_allocated, .. } = format;
                    return Err(damaged(format!(
                        "{length} bytes of pixels are too few for {frames} frame(s) of {columns} x {rows} pixels with {samples} \
                         sample(s) of {bits_allocated} bits"
                    )));
                }
                Place::Native { offset: element.offset, length }
            }
            Some(_) => return Err(damaged(format!("{syntax} has its pixels in fragments, but there are none"))),
            None => {
                let (table, fragments) = walk(&element.source, element.offset).map_err(|e| damaged(e.to_string()))?;
                let table = offsets.filter(|o| o.len() == format.frames).map_or(table, <[u64]>::to_vec);
                let starts = |at: usize| starts_stream(&element.source, &fragments[at], syntax.codec);
                let frames = assign(&fragments, &table, format.frames, starts).map_err(damaged)?;
                Place::Fragments { fragments, frames }
            }
        };
        Ok(FrameReader { path: path.to_owned(), source: element.source.clone(), syntax: syntax.clone(), place })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn syntax(&self) -> &TransferSyntax {
        &self.syntax
    }

    /// The bytes of a frame in the file; `None` if frames are not compressed.
    pub fn compressed(&self, frame: usize) -> Option<u64> {
        match &self.place {
            Place::Native { .. } => None,
            Place::Fragments { fragments, frames } => {
                Some(fragments[frames[frame].clone()].iter().map(|f| u64::from(f.length)).sum())
            }
        }
    }

    /// The stored bytes of a frame (from 0).
    pub fn frame(&self, format: &PixelFormat, frame: usize) -> Result<Vec<u8>, DicomError> {
        let io = |source| DicomError::Io { path: self.path.clone(), source };
        match &self.place {
            Place::Native { offset, length } if format.bits_allocated == 1 => {
                // Frames of single bits are stored without a gap.
                let bits = format.frame_samples() as u64;
                let begin = frame as u64 * bits;
                let bytes = (begin / 8)..(begin + bits).div_ceil(8).min(*length);
                let packed = self.source.read(offset + bytes.start, bytes.end - bytes.start).map_err(io)?;
                let skip = (begin % 8) as usize;
                let bit = |i: usize| (packed.get(i / 8).copied().unwrap_or(0) >> (i % 8)) & 1;
                Ok((skip..skip + bits as usize).map(bit).collect())
            }
            Place::Native { offset, .. } => {
                let size = format.native_bytes();
                self.source.read(offset + frame as u64 * size, size).map_err(io)
            }
            Place::Fragments { fragments, frames } => {
                let mut bytes = Vec::new();
                for fragment in &fragments[frames[frame].clone()] {
                    bytes.extend(self.source.read(fragment.offset, u64::from(fragment.length)).map_err(io)?);
                }
                Ok(bytes)
            }
        }
    }
}

trait ReadSeek: Read + Seek {}
impl<T: Read + Seek> ReadSeek for T {}

/// The basic offset table and the fragments after it.
fn walk(source: &Source, offset: u64) -> std::io::Result<(Vec<u64>, Vec<Fragment>)> {
    let invalid = |what: String| std::io::Error::new(std::io::ErrorKind::InvalidData, what);
    let size = source.size();
    let mut reader: Box<dyn ReadSeek + '_> = match source {
        Source::File { path, .. } => Box::new(BufReader::with_capacity(4096, hearth_files::open(path)?)),
        Source::Memory { bytes } => Box::new(Cursor::new(bytes.as_slice())),
    };
    let mut at = offset;
    let mut table: Option<Vec<u64>> = None;
    let mut fragments = Vec::new();
    let mut first = 0;
    while size - at.min(size) >= 8 {
        reader.seek(SeekFrom::Start(at))?;
        let mut header = [0; 8];
        reader.read_exact(&mut header)?;
        let [a, b, c, d, l @ ..] = header;
        let length = u32::from_le_bytes(l);
        match [a, b, c, d] {
            [0xfe, 0xff, 0x00, 0xe0] => {}
            [0xfe, 0xff, 0xdd, 0xe0] => return Ok((table.unwrap_or_default(), fragments)),
            other => return Err(invalid(format!("pixel fragments: {other:02x?} at byte {at} is not an item"))),
        }
        if u64::from(length) > size - at - 8 {
            let missing = u64::from(length) - (size - at - 8);
            return Err(invalid(format!("the last pixel fragment misses {missing} bytes: the file is truncated")));
        }
        if table.is_none() {
            let mut bytes = vec![0; length as usize];
            reader.read_exact(&mut bytes)?;
            let words = bytes.chunks_exact(4).map(|w| u64::from(u32::from_le_bytes([w[0], w[1], w[2], w[3]])));
            table = Some(words.collect());
            first = at + 8 + u64::from(length);
        } else {
            fragments.push(Fragment { item: at - first, offset: at + 8, length });
        }
        at += 8 + u64::from(length);
    }
    if fragments.is_empty() {
        return Err(invalid("no pixel fragments: the file is truncated".to_owned()));
    }
    // Only the closing delimiter may be missing.
    Ok((table.unwrap_or_default(), fragments))
}

/// Assigns fragments to `count` frames: by the offset table, one each, or by the starts of code
/// streams.
fn assign(
    fragments: &[Fragment],
    table: &[u64],
    count: usize,
    starts: impl Fn(usize) -> bool,
) -> Result<Vec<Range<usize>>, String> {
    let total = fragments.len();
    if total < count {
        return Err(format!("{total} pixel fragment(s) for {count} frame(s): the file is truncated"));
    }
    let ranges = |starts: Vec<usize>| -> Vec<Range<usize>> {
        let ends = starts.iter().skip(1).copied().chain([total]);
        starts.iter().copied().zip(ends).map(|(a, b)| a..b).collect()
    };
    if count == 1 {
        return Ok(vec![0..total]);
    }
    if total == count {
        return Ok((0..total).map(|i| i..i + 1).collect());
    }
    if table.len() == count {
        let find = |offset: &u64| fragments.binary_search_by_key(offset, |f| f.item).ok();
        let found: Option<Vec<usize>> = table.iter().map(find).collect();
        if let Some(found) = found.filter(|f| f[0] == 0 && f.is_sorted_by(|a, b| a < b)) {
            return Ok(ranges(found));
        }
        return Err("the offset table of the pixel fragments does not point at fragments".to_owned());
    }
    let found: Vec<usize> = (0..total).filter(|i| starts(*i)).collect();
    if found.len() == count && found[0] == 0 {
        return Ok(ranges(found));
    }
    Err(format!("{total} pixel fragments for {count} frames, and no offset table to assign them"))
}

/// Whether a fragment begins a code stream.
fn starts_stream(source: &Source, fragment: &Fragment, codec: Codec) -> bool {
    let marker: &[u8] = match codec {
        Codec::Jpeg | Codec::JpegLs => &[0xff, 0xd8],
        Codec::Jpeg2000 | Codec::HighThroughput => &[0xff, 0x4f],
        _ => return false,
    };
    source.read(fragment.offset, u64::from(fragment.length.min(2))).is_ok_and(|b| b == marker)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn item(bytes: &[u8]) -> Vec<u8> {
        [&[0xfe, 0xff, 0x00, 0xe0], &(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
    }

    fn memory(bytes: Vec<u8>) -> Source {
        Source::Memory { bytes: Arc::new(bytes) }
    }

    #[test]
    fn fragments_are_assigned_by_table_by_number_and_by_marker() {
        let parts: [&[u8]; 3] = [&[0xff, 0xd8, 1, 1], &[2, 2], &[0xff, 0xd8, 3, 3]];
        let mut bytes = item(&[0, 0, 0, 0, 22, 0, 0, 0]);
        parts.iter().for_each(|p| bytes.extend(item(p)));
        bytes.extend([0xfe, 0xff, 0xdd, 0xe0, 0, 0, 0, 0]);
        let source = memory(bytes.clone());
        let (table, fragments) = walk(&source, 0).expect("sound");
        assert_eq!((table.as_slice(), fragments.len()), (&[0, 22][..], 3));
        let two = Ok(vec![0..2, 2..3]);
        assert_eq!(assign(&fragments, &table, 2, |_| false), two);
        assert_eq!(assign(&fragments, &[], 2, |i| starts_stream(&source, &fragments[i], Codec::Jpeg)), two);
        assert_eq!(assign(&fragments, &[], 3, |_| false), Ok(vec![0..1, 1..2, 2..3]));
        assert_eq!(assign(&fragments, &[], 1, |_| false), Ok(vec![0..3]));
        assert!(assign(&fragments, &[], 4, |_| false).is_err());
        assert!(assign(&fragments, &[0, 21], 2, |_| false).is_err());
        // Truncated anywhere: an error or fewer fragments, never a panic. If only the delimiter is
        // missing, it still reads.
        for cut in 0..bytes.len() {
            let got = walk(&memory(bytes[..cut].to_vec()), 0);
            assert_eq!(got.is_ok_and(|(_, f)| f.len() == 3), cut >= bytes.len() - 8, "{cut}");
        }
    }
}
