//! Sequences whose value representation was lost: `UN` of undefined length in an explicit data set,
//! whose content is implicit little endian (PS3.5, 6.2.2; CP-246). The parser reads it as explicit. Such a
//! sequence, which is private in practice, gets the length that it has, and is then bytes.

/// The nesting depth that is followed.
const DEEPEST: usize = 32;

const UNDEFINED: u32 = u32::MAX;
const ITEM: (u16, u16) = (0xfffe, 0xe000);
const ITEM_END: (u16, u16) = (0xfffe, 0xe00d);
const SEQUENCE_END: (u16, u16) = (0xfffe, 0xe0dd);
const PIXELS: u16 = 0x7fe0;

/// Gives the sequences their lengths, in place. Returns false if one of them does not end within `bytes`; anything
/// else that is odd is left to the parser, which reports it.
pub(crate) fn close(bytes: &mut [u8]) -> bool {
    let mut at = 0;
    while let Some(element) = explicit(bytes, at) {
        let Element { tag, length, begin, is_unknown, is_sequence } = element;
        at = match (length, is_unknown, is_sequence) {
            _ if tag.0 == PIXELS => return true,
            // Their content follows, as elements of this data set do.
            (UNDEFINED, false, true) => begin,
            (UNDEFINED, true, _) => {
                let Some(end) = after(bytes, begin, SEQUENCE_END, 0) else { return false };
                let Ok(length) = u32::try_from(end - begin) else { return true };
                bytes[begin - 4..begin].copy_from_slice(&length.to_le_bytes());
                end
            }
            (UNDEFINED, ..) => return true,
            // A sequence with a length may hold one without.
            (_, false, true) => begin,
            (length, ..) => match begin.checked_add(length as usize) {
                Some(end) => end,
                None => return true,
            },
        };
    }
    true
}

/// An element of an explicit data set.
struct Element {
    tag: (u16, u16),
    length: u32,
    /// The place of its value.
    begin: usize,
    is_unknown: bool,
    /// Whether its content has the form of a data set: a sequence, an item, or one of their ends.
    is_sequence: bool,
}

fn tag(bytes: &[u8], at: usize) -> Option<(u16, u16)> {
    let four = bytes.get(at..at + 4)?;
    Some((u16::from_le_bytes([four[0], four[1]]), u16::from_le_bytes([four[2], four[3]])))
}

fn length(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}

fn explicit(bytes: &[u8], at: usize) -> Option<Element> {
    let tag = tag(bytes, at)?;
    if matches!(tag, ITEM | ITEM_END | SEQUENCE_END) {
        let length = length(bytes, at + 4)?;
        return Some(Element { tag, length, begin: at + 8, is_unknown: false, is_sequence: true });
    }
    let vr = bytes.get(at + 4..at + 6)?;
    let is_long = matches!(
        vr,
        b"OB" | b"OD" | b"OF" | b"OL" | b"OV" | b"OW" | b"SQ" | b"SV" | b"UC" | b"UN" | b"UR" | b"UT" | b"UV"
    );
    let (length, begin) = match is_long {
        true => (length(bytes, at + 8)?, at + 12),
        false => {
            let two = bytes.get(at + 6..at + 8)?;
            (u32::from(u16::from_le_bytes([two[0], two[1]])), at + 8)
        }
    };
    Some(Element { tag, length, begin, is_unknown: vr == b"UN", is_sequence: vr == b"SQ" })
}

/// The place after `end`, which closes the items or implicit elements that begin here.
fn after(bytes: &[u8], mut at: usize, end: (u16, u16), depth: usize) -> Option<usize> {
    loop {
        let (tag, length) = (tag(bytes, at)?, length(bytes, at + 4)?);
        at += 8;
        at = match length {
            _ if tag == end => return Some(at),
            UNDEFINED if depth == DEEPEST => return None,
            UNDEFINED => after(bytes, at, if tag == ITEM { ITEM_END } else { SEQUENCE_END }, depth + 1)?,
            length => at.checked_add(length as usize).filter(|end| *end <= bytes.len())?,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &[u8] = b"\x09\x00\x10\x10UN\x00\x00\xff\xff\xff\xff";
    const REST: &[u8] = b"\x28\x00\x10\x00US\x02\x00\x10\x00";

    /// An item of undefined length with one implicit element and a sequence.
    fn content() -> Vec<u8> {
        let nested =
            b"\x09\x00\x12\x10\xff\xff\xff\xff\xfe\xff\x00\xe0\x00\x00\x00\x00\xfe\xff\xdd\xe0\x00\x00\x00\x00";
        [
            &b"\xfe\xff\x00\xe0\xff\xff\xff\xff"[..],
            b"\x08\x00\x50\x11\x04\x00\x00\x001.2\0",
            nested,
            b"\xfe\xff\x0d\xe0\x00\x00\x00\x00",
            b"\xfe\xff\xdd\xe0\x00\x00\x00\x00",
        ]
        .concat()
    }

    #[test]
    fn a_sequence_gets_its_length() {
        let content = content();
        let mut bytes = [START, &content, REST].concat();
        assert!(close(&mut bytes));
        assert_eq!(bytes[8..12], (content.len() as u32).to_le_bytes());
        assert_eq!(&bytes[12..], [&content[..], REST].concat());
        let closed = bytes.clone();
        assert!(close(&mut bytes) && bytes == closed, "once more changes nothing");
        // Within an item of another sequence.
        let around = b"\x40\x00\x75\x02SQ\x00\x00\xff\xff\xff\xff\xfe\xff\x00\xe0\xff\xff\xff\xff";
        let mut bytes = [around, START, &content, REST].concat();
        assert!(close(&mut bytes));
        assert_eq!(bytes[around.len() + 8..around.len() + 12], (content.len() as u32).to_le_bytes());
    }

    #[test]
    fn one_that_is_cut_off_needs_more() {
        let whole = [START, &content()[..]].concat();
        for end in START.len()..whole.len() {
            let mut cut = whole[..end].to_vec();
            assert!(!close(&mut cut) && cut == whole[..end], "{end}");
        }
        assert!(close(&mut whole.clone()));
    }

    #[test]
    fn other_bytes_are_left_alone() {
        for bytes in [&b""[..], b"\x08\x00", b"\x08\x00\x60\x00CS\x02\x00CT", &[0xff; 40], REST] {
            let mut own = bytes.to_vec();
            assert!(close(&mut own) && own == bytes);
        }
    }
}
