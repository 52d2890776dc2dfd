//! The header of a contiguous frame.

use std::io::Read;

use super::MAGIC;
use super::fields::Fields;

/// The maximum number of bytes of a header; array headers have about two hundred, plus user
/// metadata.
const MAX_HEADER: usize = 1 << 20;

/// The number of bytes before the metalayers, the same in all headers.
const FIXED: usize = 87;

/// The name of the metalayer with the array's shape.
const ARRAY: &[u8] = b"b2nd";

/// The content of a frame's header.
#[derive(Debug)]
pub(super) struct Frame {
    /// Number of bytes of the header; the first chunk follows.
    pub header: u64,
    /// Number of bytes of the frame.
    pub length: u64,
    /// Offset of the chunk that holds the index of the others.
    pub index: u64,
    /// Number of bytes of all chunks, unpacked.
    pub unpacked: u64,
    /// Number of bytes of a value.
    pub value_size: usize,
    /// Number of bytes of a chunk, unpacked.
    pub chunk_bytes: usize,
    /// The metalayer with the array's shape.
    pub array: Vec<u8>,
}

impl Frame {
    /// Parses a header. `file` is the size of the file in bytes.
    pub fn read(source: &mut impl Read, file: u64) -> Result<Self, String> {
        let mut bytes = Vec::new();
        source.take(FIXED as u64).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        if bytes.len() < FIXED {
            return Err(format!("not a frame of Blosc2: {} bytes, but a header has at least {FIXED}", bytes.len()));
        }
        let mut fields = Fields::new(&bytes);
        // The number of fields differs between versions; the first fields are the same.
        fields.byte()?;
        if fields.bytes(MAGIC.len())? != MAGIC {
            return Err("not a frame of Blosc2: it begins with other bytes".to_owned());
        }
        fields.tag(Fields::INT32)?;
        let header = fields.size()?;
        fields.byte()?;
        let length = fields.long()?;
        fields.byte()?;
        let (flags, kind) = (fields.byte()?, fields.byte()?);
        fields.bytes(2)?;
        fields.tag(Fields::INT64)?;
        let unpacked = fields.long()?;
        fields.tag(Fields::INT64)?;
        let packed = fields.long()?;
        fields.tag(Fields::INT32)?;
        let value_size = fields.size()?;
        fields.tag(Fields::INT32)?;
        fields.size()?;
        fields.tag(Fields::INT32)?;
        let chunk_bytes = fields.size()?;
        match kind & 0x0f {
            0 => {}
            1 => return Err("a sparse frame of Blosc2, whose chunks are separate files".to_owned()),
            other => return Err(format!("a frame of Blosc2 of the unknown kind {other}")),
        }
        if flags >> 4 & 3 != 1 || flags & 0x40 != 0 {
            return Err(
                "a frame of Blosc2 with chunks of several lengths, or with an index that does not have 64 bits".into(),
            );
        }
        if length > file {
            return Err(format!("its header states {length} bytes, but the file has {file}: it is incomplete"));
        }
        if !(FIXED..=MAX_HEADER).contains(&header) {
            return Err(format!("a header of {header} bytes; expected {FIXED} to {MAX_HEADER}"));
        }
        let index = packed.checked_add(header as u64).filter(|index| *index < length);
        let index = index.ok_or_else(|| format!("{packed} bytes of chunks do not fit into its {length} bytes"))?;
        if value_size == 0 || chunk_bytes == 0 {
            return Err(format!("values of {value_size} bytes in chunks of {chunk_bytes}"));
        }
        source.take((header - FIXED) as u64).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        if bytes.len() < header {
            return Err(format!("it ends after {} of the {header} bytes of its header", bytes.len()));
        }
        let array = metalayer(&bytes)?;
        Ok(Frame { header: header as u64, length, index, unpacked, value_size, chunk_bytes, array })
    }
}

/// The content of the metalayer [`ARRAY`].
fn metalayer(header: &[u8]) -> Result<Vec<u8>, String> {
    let mut fields = Fields::new(header);
    fields.bytes(FIXED)?;
    fields.tag(Fields::SHORT_ARRAY | 3)?;
    fields.tag(Fields::UINT16)?;
    fields.u16()?;
    fields.tag(Fields::MAP16)?;
    for _ in 0..fields.u16()? {
        let length = usize::from(fields.byte()? & !Fields::SHORT_STRING);
        let name = fields.bytes(length)?;
        fields.tag(Fields::INT32)?;
        let at = fields.size()?;
        if name == ARRAY {
            let mut content = Fields::new(header.get(at..).unwrap_or_default());
            content.tag(Fields::BIN32)?;
            let length = content.size()?;
            return Ok(content.bytes(length)?.to_vec());
        }
    }
    Err("a frame of Blosc2 that is not an array: it has no metalayer \"b2nd\"".to_owned())
}
