//! Chunks: the header, and the compressed blocks.

use rayon::prelude::*;

use super::codec::{Codec, Unpacker};
use super::filters::Filter;

/// Flags of the first part of a header.
const STORED: u8 = 0x02;
const EXTENDED: u8 = 0x05;
const NOT_SPLIT: u8 = 0x10;

/// Flags of the second part of a header.
const DICTIONARY: u8 = 0x01;
const INSTRUMENTED: u8 = 0x80;

/// The supported versions of the format: that of Blosc2 2.0, and that of Blosc2 3, which adds
/// blocks of several lengths; a separate flag marks them.
const VERSIONS: [u8; 2] = [5, 6];

/// The header of a chunk.
#[derive(Debug)]
pub(super) struct Head {
    /// Number of bytes of the chunk, including its header.
    pub packed: usize,
    unpacked: usize,
    /// Number of bytes of a block; the last one may have fewer.
    block: usize,
    value_size: usize,
    /// Whether the values are stored uncompressed.
    stored: bool,
    /// Whether blocks consist of one stream for each byte of a value.
    split: bool,
    codec: u8,
    special: Option<Special>,
    /// Filters, in the order in which they are undone.
    filters: Vec<Filter>,
}

impl Head {
    /// The number of bytes of a header.
    pub const BYTES: usize = 32;

    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let bytes: &[u8; Self::BYTES] = bytes.first_chunk().ok_or("it ends within the header")?;
        let flags = bytes[2];
        if !VERSIONS.contains(&bytes[0]) || flags & EXTENDED != EXTENDED {
            return Err(format!("version {} of the format; versions 5 and 6 are read", bytes[0]));
        }
        let size = |at: usize| {
            let value = i32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
            usize::try_from(value).map_err(|_| format!("a size of {value} in its header"))
        };
        let (unpacked, block, packed) = (size(4)?, size(8)?, size(12)?);
        if packed < Self::BYTES || block == 0 || bytes[3] == 0 {
            return Err(format!("{packed} bytes in blocks of {block} and values of {}", bytes[3]));
        }
        let (more, special) = (bytes[31], bytes[31] >> 4 & 7);
        if bytes[30] != 0 {
            return Err("blocks of several lengths, which are not supported".to_owned());
        }
        if more & DICTIONARY != 0 {
            return Err("compressed with a dictionary, which is not supported".to_owned());
        }
        if more & INSTRUMENTED != 0 {
            return Err("it holds codec measurements instead of values".to_owned());
        }
        let value_size = usize::from(bytes[3]);
        let filters = bytes[16..22].iter().zip(&bytes[24..30]).rev();
        let filters = filters.filter_map(|(code, option)| Filter::of(*code, *option, value_size).transpose());
        Ok(Head {
            packed,
            unpacked,
            block,
            value_size,
            stored: flags & STORED != 0,
            split: flags & NOT_SPLIT == 0,
            codec: flags >> 5,
            special: if special == 0 { None } else { Some(Special::of(special)?) },
            filters: filters.collect::<Result<_, _>>()?,
        })
    }
}

/// Chunks that hold a single value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Special {
    Zeros,
    NotANumber,
    /// A value after the header.
    Value,
}

impl Special {
    fn of(code: u8) -> Result<Self, String> {
        match code {
            1 => Ok(Special::Zeros),
            2 => Ok(Special::NotANumber),
            3 => Ok(Special::Value),
            4 => Err("it was never written: the program that wrote the file was interrupted".to_owned()),
            other => Err(format!("a chunk of the unknown kind {other}")),
        }
    }

    /// Decodes an index entry that is not the offset of a chunk.
    pub fn of_entry(entry: i64) -> Result<Option<Self>, String> {
        if entry >= 0 {
            return Ok(None);
        }
        match Special::of((entry >> 56) as u8 & 0x7f)? {
            Special::Value => Err("an entry of the index that has a value".to_owned()),
            special => Ok(Some(special)),
        }
    }

    /// Fills a chunk whose value is not in the file.
    pub fn fill(self, value_size: usize, out: &mut [u8]) -> Result<(), String> {
        match (self, value_size) {
            (Special::Zeros, _) => out.fill(0),
            (Special::NotANumber, 4) => repeat(&f32::NAN.to_le_bytes(), out),
            (Special::NotANumber, 8) => repeat(&f64::NAN.to_le_bytes(), out),
            (Special::NotANumber, size) => return Err(format!("NaN values of {size} bytes are not supported")),
            (Special::Value, _) => return Err("the value is missing".to_owned()),
        }
        Ok(())
    }
}

fn repeat(value: &[u8], out: &mut [u8]) {
    out.chunks_mut(value.len()).for_each(|out| out.copy_from_slice(&value[..out.len()]));
}

/// Unpacks a chunk, one block after another.
pub(super) fn unpack(head: &Head, chunk: &[u8], out: &mut [u8]) -> Result<(), String> {
    if head.unpacked != out.len() {
        return Err(format!("its header states {} bytes; expected {}", head.unpacked, out.len()));
    }
    let content = chunk.get(Head::BYTES..head.packed).ok_or("it ends within its content")?;
    if let Some(special) = head.special {
        if special != Special::Value {
            return special.fill(head.value_size, out);
        }
        if content.is_empty() || !out.len().is_multiple_of(content.len()) {
            return Err(format!("a value of {} bytes in a chunk of {}", content.len(), out.len()));
        }
        repeat(content, out);
        return Ok(());
    }
    if head.stored {
        if content.len() != out.len() {
            return Err(format!("{} uncompressed bytes; expected {}", content.len(), out.len()));
        }
        out.copy_from_slice(content);
        return Ok(());
    }
    let codec = Codec::of(head.codec)?;
    let count = out.len().div_ceil(head.block);
    let starts = content.as_chunks::<4>().0.get(..count);
    let starts = starts.ok_or_else(|| format!("it ends before the offsets of its {count} blocks"))?;
    out.par_chunks_mut(head.block).zip(starts).try_for_each_init(
        || (Unpacker::new(codec), Vec::new()),
        |(unpacker, scratch), (out, start)| {
            let start = usize::try_from(i32::from_le_bytes(*start)).ok();
            let start = start.filter(|start| *start >= Head::BYTES + 4 * count);
            let packed = start.and_then(|start| chunk.get(start..head.packed));
            block(head, unpacker, packed.ok_or("a block lies outside of it")?, scratch, out)
        },
    )
}

/// Unpacks a block and undoes its filters.
fn block(
    head: &Head,
    unpacker: &mut Unpacker,
    packed: &[u8],
    scratch: &mut Vec<u8>,
    out: &mut [u8],
) -> Result<(), String> {
    if head.filters.is_empty() {
        return streams(head, unpacker, packed, out);
    }
    scratch.resize(out.len(), 0);
    streams(head, unpacker, packed, scratch)?;
    for (number, filter) in head.filters.iter().enumerate() {
        if number > 0 {
            scratch.copy_from_slice(out);
        }
        filter.undo(scratch, out);
    }
    Ok(())
}

/// Unpacks the streams of a block, one after another.
fn streams(head: &Head, unpacker: &mut Unpacker, mut packed: &[u8], out: &mut [u8]) -> Result<(), String> {
    const ENDS: &str = "it ends within a block";
    // The last block is not split if it is shorter than the others.
    let count = if head.split && out.len() == head.block { head.value_size } else { 1 };
    if !out.len().is_multiple_of(count) {
        return Err(format!("a block of {} bytes in {count} streams", out.len()));
    }
    for part in out.chunks_exact_mut(out.len() / count) {
        let (size, rest) = packed.split_first_chunk().ok_or(ENDS)?;
        packed = rest;
        let size = i32::from_le_bytes(*size);
        match usize::try_from(size) {
            Ok(0) => part.fill(0),
            Ok(size) => {
                let (stream, rest) = packed.split_at_checked(size).ok_or(ENDS)?;
                packed = rest;
                if size == part.len() { part.copy_from_slice(stream) } else { unpacker.unpack(stream, part)? }
            }
            // A repeated byte, marked by a token after it.
            Err(_) => {
                let (token, rest) = packed.split_first().ok_or(ENDS)?;
                packed = rest;
                let byte = u8::try_from(size.unsigned_abs()).ok().filter(|_| token & 1 != 0);
                part.fill(byte.ok_or_else(|| format!("a stream of {size} bytes"))?);
            }
        }
    }
    Ok(())
}
