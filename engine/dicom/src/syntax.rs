//! Transfer syntaxes, and how a file without one is recognized.

use std::fmt;
use std::io::Read;
use std::path::Path;

use dicom_object::InMemDicomObject;
use dicom_transfer_syntax_registry::entries;

/// The encoding of the elements of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Implicit,
    Explicit,
    Big,
}

/// The encoding of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    /// Uncompressed, in the data set's byte order.
    Native,
    /// Uncompressed, little-endian, in fragments.
    Fragments,
    /// Each frame deflated.
    DeflatedFrames,
    Rle,
    /// Lossy or lossless, 8 to 16 bits, as the code stream defines.
    Jpeg,
    JpegLs,
    Jpeg2000,
    HighThroughput,
    Unknown,
}

/// A transfer syntax: its UID and meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferSyntax {
    uid: String,
    pub(crate) encoding: Encoding,
    pub(crate) deflated: bool,
    pub(crate) codec: Codec,
}

impl TransferSyntax {
    pub(crate) fn from_uid(uid: &str) -> Self {
        let short = uid.strip_prefix("1.2.840.10008.1.2").unwrap_or("?");
        let encoding = match short {
            "" => Encoding::Implicit,
            ".2" => Encoding::Big,
            _ => Encoding::Explicit,
        };
        let codec = match short {
            "" | ".1" | ".1.99" | ".2" => Codec::Native,
            ".1.98" => Codec::Fragments,
            ".8.1" => Codec::DeflatedFrames,
            ".5" => Codec::Rle,
            ".4.50" | ".4.51" | ".4.57" | ".4.70" => Codec::Jpeg,
            ".4.80" | ".4.81" => Codec::JpegLs,
            ".4.90" | ".4.91" => Codec::Jpeg2000,
            ".4.201" | ".4.202" | ".4.203" => Codec::HighThroughput,
            _ => Codec::Unknown,
        };
        TransferSyntax { uid: uid.to_owned(), encoding, deflated: short == ".1.99", codec }
    }

    /// The syntax of a data set without file meta information.
    pub(crate) fn of_encoding(encoding: Encoding) -> Self {
        TransferSyntax::from_uid(match encoding {
            Encoding::Implicit => "1.2.840.10008.1.2",
            Encoding::Explicit => "1.2.840.10008.1.2.1",
            Encoding::Big => "1.2.840.10008.1.2.2",
        })
    }

    /// The UID.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Whether the compression is lossy.
    pub fn is_lossy(&self) -> bool {
        [".4.50", ".4.51", ".4.81", ".4.91", ".4.203"].iter().any(|s| self.uid == format!("1.2.840.10008.1.2{s}"))
    }
}

impl fmt::Display for TransferSyntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match (self.codec, self.encoding) {
            (Codec::Native, _) if self.deflated => "deflated, explicit VR little endian",
            (Codec::Native, Encoding::Implicit) => "implicit VR little endian",
            (Codec::Native, Encoding::Explicit) => "explicit VR little endian",
            (Codec::Native, Encoding::Big) => "explicit VR big endian",
            (Codec::Fragments, _) => "encapsulated uncompressed",
            (Codec::DeflatedFrames, _) => "deflated frames",
            (Codec::Rle, _) => "RLE",
            (Codec::Jpeg, _) => "JPEG",
            (Codec::JpegLs, _) => "JPEG-LS",
            (Codec::Jpeg2000, _) => "JPEG 2000",
            (Codec::HighThroughput, _) => "high-throughput JPEG 2000",
            (Codec::Unknown, _) => "unknown transfer syntax",
        };
        write!(f, "{name} ({})", self.uid)
    }
}

impl Encoding {
    /// Parses a data set. Lengths must already be checked ([`crate::open`]).
    pub(crate) fn parse(self, bytes: &[u8]) -> Result<InMemDicomObject, String> {
        let syntax = self.registered();
        InMemDicomObject::read_dataset_with_ts(bytes, &syntax).map_err(|e| chain(&e))
    }

    pub(crate) fn registered(self) -> dicom_transfer_syntax_registry::TransferSyntax {
        match self {
            Encoding::Implicit => entries::IMPLICIT_VR_LITTLE_ENDIAN.erased(),
            Encoding::Explicit => entries::EXPLICIT_VR_LITTLE_ENDIAN.erased(),
            Encoding::Big => entries::EXPLICIT_VR_BIG_ENDIAN.erased(),
        }
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

/// The start of the data set of a file, and its syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The first byte of the data set.
    pub dataset: usize,
    /// The transfer syntax, as stated or as recognized.
    pub syntax: TransferSyntax,
}

/// The layout of a file, from its first bytes; `None` if it is not DICOM. A few kilobytes are
/// enough.
pub(crate) fn layout(head: &[u8]) -> Option<Layout> {
    let meta = if head.get(128..132) == Some(b"DICM") {
        132
    } else if starts_meta(head) {
        0
    } else {
        return Some(Layout { dataset: 0, syntax: TransferSyntax::of_encoding(encoding(head)?) });
    };
    let (dataset, uid) = walk_meta(head, meta);
    let syntax = match uid {
        Some(uid) => TransferSyntax::from_uid(&uid),
        // A file without it violates the standard; the data set still reveals its encoding.
        None => TransferSyntax::of_encoding(encoding(&head[dataset..]).unwrap_or(Encoding::Explicit)),
    };
    Some(Layout { dataset, syntax })
}

/// Whether the first bytes of a file are DICOM: `DICM` after a preamble of 128 bytes, or a data set
/// without a header. A few hundred bytes are enough.
pub fn is_dicom(head: &[u8]) -> bool {
    layout(head).is_some()
}

/// Whether a file is DICOM by its first bytes; one that cannot be read is not.
pub fn is_dicom_file(path: impl AsRef<Path>) -> bool {
    let mut head = Vec::new();
    let read = hearth_files::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    read.is_ok() && is_dicom(&head)
}

/// The number of bytes of a file that decide whether it is DICOM.
const HEAD: u64 = 1024;

/// File meta information without a preamble.
fn starts_meta(head: &[u8]) -> bool {
    head.get(..6).is_some_and(|h| h[..4] == [2, 0, 0, 0] && &h[4..6] == b"UL")
}

/// The end of the file meta information (group 2, always explicit, little endian) and the transfer
/// syntax in it.
fn walk_meta(bytes: &[u8], start: usize) -> (usize, Option<String>) {
    let (mut at, mut uid) = (start, None);
    while let Some(header) = bytes.get(at..at + 8) {
        if header[..2] != [2, 0] {
            break;
        }
        let long = matches!(&header[4..6], b"OB" | b"OW" | b"OF" | b"SQ" | b"UT" | b"UN");
        let (begin, length) = if long {
            let Some(word) = bytes.get(at + 8..at + 12) else { break };
            (at + 12, u32::from_le_bytes([word[0], word[1], word[2], word[3]]) as usize)
        } else {
            (at + 8, usize::from(u16::from_le_bytes([header[6], header[7]])))
        };
        let Some(value) = begin.checked_add(length).and_then(|end| bytes.get(begin..end)) else { break };
        if header[2..4] == [0x10, 0] {
            let text = String::from_utf8_lossy(value).trim_matches(|c: char| c == '\0' || c.is_whitespace()).to_owned();
            uid = Some(text).filter(|t| !t.is_empty());
        }
        at = begin + length;
    }
    (at.min(bytes.len()), uid)
}

/// Recognizes the encoding of a data set from its first two elements: they must be of a low group,
/// in order, and short.
fn encoding(bytes: &[u8]) -> Option<Encoding> {
    [Encoding::Explicit, Encoding::Implicit, Encoding::Big].into_iter().find(|e| plausible(bytes, *e))
}

fn plausible(bytes: &[u8], encoding: Encoding) -> bool {
    let mut at = 0;
    let mut before = None;
    for _ in 0..2 {
        let Some(h) = bytes.get(at..at + 8) else { return false };
        let short = |a: u8, b: u8| match encoding {
            Encoding::Big => u16::from_be_bytes([a, b]),
            _ => u16::from_le_bytes([a, b]),
        };
        let tag = (short(h[0], h[1]), short(h[2], h[3]));
        if tag.0 != 8 || before.is_some_and(|b| tag <= b) {
            return false;
        }
        before = Some(tag);
        let length = match encoding {
            Encoding::Implicit => u32::from_le_bytes([h[4], h[5], h[6], h[7]]) as usize,
            // The first elements of group 8 are strings, dates and UIDs, all with short lengths.
            _ if h[4..6].iter().all(u8::is_ascii_uppercase) => usize::from(short(h[6], h[7])),
            _ => return false,
        };
        if length > 1024 || length % 2 == 1 {
            return false;
        }
        at += 8 + length;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_set_without_a_header_is_recognized_by_its_first_elements() {
        let implicit = [8, 0, 5, 0, 2, 0, 0, 0, b'I', b'S', 8, 0, 0x16, 0, 0, 0, 0, 0, 0, 0];
        let explicit = *b"\x08\x00\x05\x00CS\x02\x00IS\x08\x00\x16\x00UI\x00\x00";
        let big = *b"\x00\x08\x00\x05CS\x00\x02IS\x00\x08\x00\x16UI\x00\x00";
        for (bytes, expected) in
            [(&implicit[..], Encoding::Implicit), (&explicit[..], Encoding::Explicit), (&big[..], Encoding::Big)]
        {
            assert_eq!(layout(bytes).map(|l| (l.dataset, l.syntax.encoding)), Some((0, expected)));
        }
        for other in [&b"II*\0\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"[..], b"", b"\x08\x00", &[0; 200], &[0xff; 200]] {
            assert!(!is_dicom(other));
        }
    }

    #[test]
    fn the_transfer_syntax_is_read_from_the_meta_information() {
        let mut file = vec![0; 128];
        file.extend(
            b"DICM\x02\x00\x01\x00OB\x00\x00\x02\x00\x00\x00\x00\x01\x02\x00\x10\x00UI\x14\x001.2.840.10008.1.2.5\0",
        );
        let end = file.len();
        file.extend(b"\x08\x00\x05\x00CS\x02\x00IS");
        let found = layout(&file).expect("DICOM");
        assert_eq!((found.dataset, found.syntax.uid(), found.syntax.codec), (end, "1.2.840.10008.1.2.5", Codec::Rle));
        for cut in 0..file.len() {
            // No panic at any cut.
            let _ = layout(&file[..cut]);
        }
    }
}
