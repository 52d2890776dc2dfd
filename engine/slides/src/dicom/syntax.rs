//! Transfer syntaxes: the storage of elements and frames.

use crate::codec::Compression;
use crate::error::Fault;

/// A supported transfer syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Syntax {
    /// Whether elements omit their value representation.
    pub implicit: bool,
    /// Whether frames are in fragments.
    pub fragments: bool,
    pub compression: Compression,
}

impl Syntax {
    /// The syntax with this UID.
    pub fn of(uid: &str) -> Result<Self, Fault> {
        let plain = Syntax { implicit: false, fragments: false, compression: Compression::None };
        let coded = |compression| Ok(Syntax { fragments: true, compression, ..plain });
        match short(uid) {
            "" => Ok(Syntax { implicit: true, ..plain }),
            ".1" => Ok(plain),
            ".1.98" => coded(Compression::None),
            ".4.50" | ".4.51" => coded(Compression::Jpeg),
            ".4.90" | ".4.91" => coded(Compression::Jpeg2000),
            ".5" => coded(Compression::Rle),
            _ => Err(unsupported(uid)),
        }
    }

    /// Whether the elements of a header are implicit, little endian. All unsupported syntaxes have
    /// explicit elements, except those whose headers are unsupported too.
    pub fn implicit_header(uid: &str) -> Result<bool, Fault> {
        match short(uid) {
            "" => Ok(true),
            ".2" | ".1.99" => Err(unsupported(uid)),
            _ => Ok(false),
        }
    }
}

/// The part of a UID after the prefix of DICOM's own syntaxes.
fn short(uid: &str) -> &str {
    uid.strip_prefix("1.2.840.10008.1.2").unwrap_or("?")
}

fn unsupported(uid: &str) -> Fault {
    let name = match short(uid) {
        ".2" => "explicit VR big endian",
        ".1.99" => "deflated explicit VR little endian",
        ".8.1" => "deflated frames",
        ".4.57" | ".4.70" => "lossless JPEG",
        ".4.80" | ".4.81" => "JPEG-LS",
        ".4.92" | ".4.93" => "JPEG 2000 part 2",
        ".4.110" | ".4.111" | ".4.112" => "JPEG XL",
        ".4.201" | ".4.202" | ".4.203" => "high-throughput JPEG 2000",
        _ => "unknown",
    };
    Fault::unsupported(format!(
        "the transfer syntax {uid} ({name}) of a whole slide is not read; convert it to uncompressed little endian, \
         JPEG baseline, JPEG 2000 or RLE"
    ))
}
