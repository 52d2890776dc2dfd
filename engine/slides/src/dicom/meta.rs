//! The beginning of a DICOM file: `DICM` after 128 bytes, and the file meta information.

use crate::error::Fault;
use crate::source::Source;

/// The bytes before the file meta information.
const START: usize = 132;

/// The sizes of the first read of a file: a usual one, and one that is enough for any file.
const HEADS: [u64; 2] = [4 << 10, 1 << 20];

/// The content of the file meta information.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Meta {
    /// UID of the SOP class; empty if the file omits it.
    pub class: String,
    /// UID of the transfer syntax.
    pub syntax: String,
    /// First byte of the data set.
    pub dataset: u64,
}

/// Whether the first bytes of a file are DICOM.
pub(crate) fn is_dicom(source: &Source) -> bool {
    source.read(START as u64 - 4, 4, "the header").is_ok_and(|magic| magic == b"DICM")
}

impl Meta {
    pub fn read(source: &Source) -> Result<Self, Fault> {
        for size in HEADS.map(|size| size.min(source.len())) {
            let head = source.read(0, size, "the header")?;
            if let Some(meta) = walk(&head) {
                return if meta.syntax.is_empty() {
                    Err(Fault::damaged("no transfer syntax in the file meta information: damaged or not complete"))
                } else {
                    Ok(meta)
                };
            }
        }
        Err(Fault::damaged("the file ends within its meta information: truncated"))
    }
}

/// Parses group 2, which is always explicit, little endian. `None` if more bytes are needed.
fn walk(head: &[u8]) -> Option<Meta> {
    let mut meta = Meta { class: String::new(), syntax: String::new(), dataset: 0 };
    let mut at = START;
    loop {
        let header = head.get(at..at + 8)?;
        if header[..2] != [2, 0] {
            return Some(Meta { dataset: at as u64, ..meta });
        }
        let long = matches!(&header[4..6], b"OB" | b"OW" | b"OF" | b"SQ" | b"UT" | b"UN");
        let (begin, length) = if long {
            let word = head.get(at + 8..at + 12)?;
            (at + 12, u32::from_le_bytes([word[0], word[1], word[2], word[3]]) as usize)
        } else {
            (at + 8, usize::from(u16::from_le_bytes([header[6], header[7]])))
        };
        let end = begin.checked_add(length)?;
        let value = head.get(begin..end)?;
        let text = || String::from_utf8_lossy(value).trim_matches(|c: char| c == '\0' || c.is_whitespace()).to_owned();
        match header[2..4] {
            [0x02, 0] => meta.class = text(),
            [0x10, 0] => meta.syntax = text(),
            _ => {}
        }
        at = end;
    }
}
