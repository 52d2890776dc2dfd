//! Opens a file: all of its attributes, and the position of its pixels.
//!
//! The parser of dicom-rs allocates memory for a value as soon as it has read the value's length,
//! and parses sequences recursively. A damaged file could therefore request four gigabytes or
//! overflow the stack. So every file is first scanned without reading values: lengths must lie
//! within the file, and sequences must not nest deeper than [`MAX_DEPTH`].

use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dicom_core::header::Header;
use dicom_core::{DataDictionary, PrimitiveValue, Tag, VR};
use dicom_dictionary_std::{StandardDataDictionary, tags};
use dicom_object::InMemDicomObject;
use dicom_parser::dataset::LazyDataToken;
use dicom_parser::dataset::lazy_read::LazyDataSetReader;
use dicom_parser::stateful::decode::StatefulDecode;

use crate::charset;
use crate::error::DicomError;
use crate::options::Limits;
use crate::quiet::caught;
use crate::syntax::{Encoding, TransferSyntax, chain, layout};
use crate::unknown;

/// The nesting depth, with sequences and items counted together.
const MAX_DEPTH: usize = 64;

/// The size of the first read of a file; most headers fit.
const HEAD: u64 = 64 << 10;

/// A file, parsed up to its pixels.
pub(crate) struct Opened {
    pub path: PathBuf,
    pub object: InMemDicomObject,
    pub syntax: TransferSyntax,
    pub pixels: Option<PixelElement>,
}

/// The kind of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PixelKind {
    Integer,
    Float,
    Double,
}

/// The position of the pixels.
#[derive(Clone, Debug)]
pub(crate) struct PixelElement {
    pub source: Source,
    pub offset: u64,
    /// The length in bytes; `None` if the pixels are in fragments.
    pub length: Option<u64>,
    pub kind: PixelKind,
}

/// A source of bytes: a file, or an inflated data set.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    File { path: PathBuf, size: u64 },
    Memory { bytes: Arc<Vec<u8>> },
}

impl Source {
    pub fn size(&self) -> u64 {
        match self {
            Source::File { size, .. } => *size,
            Source::Memory { bytes } => bytes.len() as u64,
        }
    }

    /// Reads a range of bytes. It must lie within [`Source::size`]; otherwise no memory is
    /// allocated.
    pub fn read(&self, offset: u64, length: u64) -> std::io::Result<Vec<u8>> {
        let early = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let end = offset.checked_add(length).filter(|end| *end <= self.size()).ok_or_else(early)?;
        match self {
            Source::Memory { bytes } => Ok(bytes[offset as usize..end as usize].to_vec()),
            Source::File { path, .. } => {
                let mut file = hearth_files::open(path)?;
                file.seek(SeekFrom::Start(offset))?;
                let mut bytes = vec![0; length as usize];
                file.read_exact(&mut bytes)?;
                Ok(bytes)
            }
        }
    }
}

/// Opens a file.
pub(crate) fn open(path: &Path, limits: &Limits) -> Result<Opened, DicomError> {
    let io = |source| DicomError::Io { path: path.to_owned(), source };
    let damaged = |what: String| DicomError::Damaged { path: path.to_owned(), what };
    let mut file = hearth_files::open(path).map_err(io)?;
    let size = file.metadata().map_err(io)?.len();
    let mut head = Vec::new();
    grow(&mut file, &mut head, HEAD.min(size)).map_err(io)?;
    let layout = layout(&head).ok_or_else(|| DicomError::NotDicom { path: path.to_owned() })?;
    if size > limits.file_bytes {
        let what = format!("{size} bytes; the limit is {} (Limits::file_bytes)", limits.file_bytes);
        return Err(DicomError::Limit { path: path.to_owned(), what });
    }
    let encoding = layout.syntax.encoding;
    if layout.syntax.deflated {
        if size > limits.inflated_bytes {
            let limit = limits.inflated_bytes;
            let what = format!("{size} bytes of a deflated data set; the limit is {limit} (Limits::inflated_bytes)");
            return Err(DicomError::Limit { path: path.to_owned(), what });
        }
        grow(&mut file, &mut head, size).map_err(io)?;
        let mut bytes = inflate(&head[layout.dataset..], limits.inflated_bytes).map_err(damaged)?;
        drop(head);
        // Deflated data sets are explicit.
        unknown::close(&mut bytes);
        let source = Source::Memory { bytes: Arc::new(bytes) };
        let Source::Memory { bytes } = &source else { return Err(damaged("no bytes".to_owned())) };
        let walked = walk(bytes, encoding, bytes.len() as u64).map_err(damaged)?;
        let walked = walked.ok_or_else(|| damaged("the deflated data set ends early".to_owned()))?;
        let object = parse(&bytes[..walked.end], encoding, &walked.named).map_err(damaged)?;
        let pixels = walked.pixels.map(|p| p.element(source.clone(), 0));
        return Ok(Opened { path: path.to_owned(), object, syntax: layout.syntax, pixels });
    }
    loop {
        let rest = size - layout.dataset as u64;
        let closed = encoding != Encoding::Explicit || unknown::close(&mut head[layout.dataset..]);
        let is_whole = head.len() as u64 >= size;
        let walked = match closed || is_whole {
            true => walk(&head[layout.dataset..], encoding, rest).map_err(damaged)?,
            false => None,
        };
        if let Some(walked) = walked {
            let object = parse(&head[layout.dataset..][..walked.end], encoding, &walked.named).map_err(damaged)?;
            let source = Source::File { path: path.to_owned(), size };
            let pixels = walked.pixels.map(|p| p.element(source, layout.dataset as u64));
            return Ok(Opened { path: path.to_owned(), object, syntax: layout.syntax, pixels });
        }
        if head.len() as u64 >= limits.attribute_bytes.max(HEAD) {
            let limit = limits.attribute_bytes;
            let what = format!("more than {limit} bytes before the pixels, the limit (Limits::attribute_bytes)");
            return Err(DicomError::Limit { path: path.to_owned(), what });
        }
        let want = (head.len() as u64 * 8).min(size).min(limits.attribute_bytes.max(HEAD));
        grow(&mut file, &mut head, want).map_err(io)?;
    }
}

/// Continues reading until `bytes` holds `want` bytes.
fn grow(file: &mut File, bytes: &mut Vec<u8>, want: u64) -> std::io::Result<()> {
    let missing = want - bytes.len() as u64;
    bytes.reserve_exact(missing as usize);
    if file.take(missing).read_to_end(bytes)? as u64 == missing {
        return Ok(());
    }
    Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof))
}

/// Inflates a data set to at most `limit` bytes.
fn inflate(bytes: &[u8], limit: u64) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let read = flate2::read::DeflateDecoder::new(bytes).take(limit + 1).read_to_end(&mut out);
    read.map_err(|e| format!("the deflated data set is damaged: {e}"))?;
    if out.len() as u64 > limit {
        return Err(format!("inflates to more than the limit of {limit} bytes (Limits::inflated_bytes)"));
    }
    Ok(out)
}

fn parse(bytes: &[u8], encoding: Encoding, named: &[usize]) -> Result<InMemDicomObject, String> {
    let parse = || {
        let mut object = charset::parse(bytes, encoding, named).map(name_unknown)?;
        charset::decode(&mut object);
        Ok(object)
    };
    caught(parse).unwrap_or_else(|panic| Err(format!("the parser panicked: {panic}")))
}

/// Reads elements whose value representation was lost (VR `UN`) as implicit VR, little endian
/// (PS3.5, 6.2.2), with the type of the dictionary. Elements that cannot be read this way are
/// unchanged.
fn name_unknown(mut object: InMemDicomObject) -> InMemDicomObject {
    let mut bytes = Vec::new();
    for element in object.iter().filter(|e| e.vr() == VR::UN && StandardDataDictionary.by_tag(e.tag()).is_some()) {
        if let Some(PrimitiveValue::U8(value)) = element.value().primitive() {
            let tag = element.tag();
            bytes.extend([tag.group().to_le_bytes(), tag.element().to_le_bytes()].as_flattened());
            bytes.extend((value.len() as u32).to_le_bytes());
            bytes.extend(value);
        }
    }
    let sound = walk_tokens(&bytes, Encoding::Implicit, bytes.len() as u64).ok().flatten();
    if let Some(known) = sound.and_then(|walked| charset::parse(&bytes, Encoding::Implicit, &walked.named).ok()) {
        known.into_iter().for_each(|element| {
            object.put(element);
        });
    }
    object
}

/// A data set that was scanned up to its pixels or its end.
struct Walked {
    /// End of the attributes before the pixels.
    end: usize,
    pixels: Option<Found>,
    /// The places of the headers of SpecificCharacterSet, at any depth.
    named: Vec<usize>,
}

struct Found {
    offset: u64,
    length: Option<u64>,
    kind: PixelKind,
}

impl Found {
    fn element(self, source: Source, base: u64) -> PixelElement {
        PixelElement { source, offset: base + self.offset, length: self.length, kind: self.kind }
    }
}

/// Scans the beginning of a data set of `total` bytes. `None` if more than `bytes` is needed.
fn walk(bytes: &[u8], encoding: Encoding, total: u64) -> Result<Option<Walked>, String> {
    caught(|| walk_tokens(bytes, encoding, total)).unwrap_or_else(|panic| Err(format!("the parser panicked: {panic}")))
}

fn walk_tokens(bytes: &[u8], encoding: Encoding, total: u64) -> Result<Option<Walked>, String> {
    let whole = bytes.len() as u64 == total;
    let syntax = encoding.registered();
    let mut reader = LazyDataSetReader::new_with_ts(Cursor::new(bytes), &syntax).map_err(|e| chain(&e))?;
    let mut depth = 0_usize;
    let mut named = Vec::new();
    loop {
        let token = match reader.advance() {
            Some(Ok(token)) => token,
            Some(Err(_)) if !whole => return Ok(None),
            Some(Err(error)) => return Err(format!("damaged or truncated: {}", chain(&error))),
            None if !whole => return Ok(None),
            None if depth > 0 => return Err("ends within a sequence: truncated".to_owned()),
            None => return Ok(Some(Walked { end: bytes.len(), pixels: None, named })),
        };
        match token {
            LazyDataToken::PixelSequenceStart if depth == 0 => break,
            LazyDataToken::SequenceStart { .. }
            | LazyDataToken::ItemStart { .. }
            | LazyDataToken::PixelSequenceStart => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(format!("sequences nest deeper than the limit of {MAX_DEPTH}"));
                }
            }
            LazyDataToken::SequenceEnd | LazyDataToken::ItemEnd => depth = depth.saturating_sub(1),
            LazyDataToken::LazyValue { header, decoder } => {
                let (begin, length) = (decoder.position(), u64::from(header.len.0));
                check_end(begin, length, total, header.tag)?;
                let kind = match header.tag {
                    tags::PIXEL_DATA => Some(PixelKind::Integer),
                    tags::FLOAT_PIXEL_DATA => Some(PixelKind::Float),
                    tags::DOUBLE_FLOAT_PIXEL_DATA => Some(PixelKind::Double),
                    _ => None,
                };
                if let Some(kind) = kind.filter(|_| depth == 0) {
                    let end = header_start(bytes, begin as usize, header.tag, encoding);
                    let pixels = Some(Found { offset: begin, length: Some(length), kind });
                    return Ok(Some(Walked { end, pixels, named }));
                }
                check_whole(header.tag, header.vr, length)?;
                if header.tag == tags::SPECIFIC_CHARACTER_SET {
                    named.push(header_start(bytes, begin as usize, header.tag, encoding));
                }
                if begin + length > bytes.len() as u64 {
                    return Ok(None);
                }
                decoder.skip_bytes(header.len.0).map_err(|e| chain(&e))?;
            }
            LazyDataToken::LazyItemValue { len, decoder } => {
                check_end(decoder.position(), u64::from(len), total, tags::PIXEL_DATA)?;
                if decoder.position() + u64::from(len) > bytes.len() as u64 {
                    return Ok(None);
                }
                decoder.skip_bytes(len).map_err(|e| chain(&e))?;
            }
            _ => {}
        }
    }
    let begin = reader.into_decoder().position();
    let end = header_start(bytes, begin as usize, tags::PIXEL_DATA, encoding);
    let pixels = Some(Found { offset: begin, length: None, kind: PixelKind::Integer });
    Ok(Some(Walked { end, pixels, named }))
}

/// Checks that the length of a value is a whole number of units. The parser leaves a remainder, and
/// reads it as the next element.
fn check_whole(tag: Tag, vr: VR, length: u64) -> Result<(), String> {
    let unit = match vr {
        VR::OW | VR::SS | VR::US => 2,
        VR::AT | VR::FL | VR::OF | VR::OL | VR::SL | VR::UL => 4,
        VR::FD | VR::OD | VR::OV | VR::SV | VR::UV => 8,
        _ => 1,
    };
    if length.is_multiple_of(unit) {
        return Ok(());
    }
    Err(format!("element {tag} of type {vr} has {length} bytes, not a multiple of {unit}: damaged"))
}

fn check_end(begin: u64, length: u64, total: u64, tag: Tag) -> Result<(), String> {
    let end = begin + length;
    if end <= total {
        return Ok(());
    }
    Err(format!("element {tag} says it has {length} bytes, {} more than the file: truncated or damaged", end - total))
}

/// The start of the header of the element whose value begins at `value`.
fn header_start(bytes: &[u8], value: usize, tag: Tag, encoding: Encoding) -> usize {
    let written = match encoding {
        Encoding::Big => [tag.group().to_be_bytes(), tag.element().to_be_bytes()],
        _ => [tag.group().to_le_bytes(), tag.element().to_le_bytes()],
    };
    let [short, long] = [8, 12].map(|header| value.saturating_sub(header));
    if bytes.get(short..short + 4) == Some(written.as_flattened()) { short } else { long }
}

/// Parses a whole data set.
#[cfg(test)]
pub(crate) fn parsed(bytes: &[u8], encoding: Encoding) -> Result<InMemDicomObject, String> {
    let walked = walk(bytes, encoding, bytes.len() as u64)?.ok_or("ends early")?;
    parse(&bytes[..walked.end], encoding, &walked.named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explicit(tag: (u16, u16), vr: &[u8; 2], value: &[u8]) -> Vec<u8> {
        let mut out = [tag.0.to_le_bytes(), tag.1.to_le_bytes()].as_flattened().to_vec();
        out.extend(vr);
        match vr {
            b"OB" | b"OW" | b"SQ" | b"UN" => {
                out.extend([0, 0]);
                out.extend((value.len() as u32).to_le_bytes());
            }
            _ => out.extend((value.len() as u16).to_le_bytes()),
        }
        out.extend(value);
        out
    }

    /// Rows of three bytes: the parser would read two, and use the third as the beginning of an
    /// element.
    #[test]
    fn a_value_of_broken_units_is_refused() {
        let mut bytes = explicit((0x28, 0x10), b"US", &[16, 0, 0]);
        bytes.extend(explicit((0x28, 0x11), b"US", &[16, 0]));
        let error = walk(&bytes, Encoding::Explicit, bytes.len() as u64).err().expect("damaged");
        assert!(error.contains("(0028,0010)") && error.contains("not a multiple of 2"), "{error}");
    }

    #[test]
    fn a_length_beyond_the_file_is_refused_before_memory_is_taken() {
        let mut bytes = explicit((8, 0x60), b"CS", b"CT");
        bytes.extend(b"\x09\x00\x10\x00UN\x00\x00\xf0\xff\xff\xff");
        let error = walk(&bytes, Encoding::Explicit, bytes.len() as u64).err().expect("cut off");
        assert!(error.contains("4294967280 bytes") && error.contains("truncated"), "{error}");
    }

    #[test]
    fn nesting_has_a_limit() {
        let mut bytes = Vec::new();
        for _ in 0..1000 {
            bytes.extend(b"\x40\x00\x30\xa7SQ\x00\x00\xff\xff\xff\xff\xfe\xff\x00\xe0\xff\xff\xff\xff");
        }
        let error = walk(&bytes, Encoding::Explicit, bytes.len() as u64).err().expect("too deep");
        assert!(error.contains("deeper"), "{error}");
    }

    #[test]
    fn pixels_are_found_in_the_beginning_of_a_file() {
        let head = explicit((8, 0x60), b"CS", b"CT");
        let mut bytes = head.clone();
        bytes.extend(explicit((0x7fe0, 0x10), b"OW", &[7; 40]));
        let found = walk(&bytes[..head.len() + 12], Encoding::Explicit, bytes.len() as u64).expect("sound");
        let found = found.expect("enough bytes");
        assert_eq!(found.end, head.len());
        let pixels = found.pixels.expect("pixels");
        assert_eq!((pixels.offset, pixels.length), (head.len() as u64 + 12, Some(40)));
        assert!(walk(&bytes[..head.len() + 3], Encoding::Explicit, bytes.len() as u64).expect("sound").is_none());
    }
}
