//! Character sets with code extensions (PS3.5, 6.1.2.5): texts that switch between sets by escape
//! sequences, as Japanese, Korean and Chinese names do. The parser knows single sets alone.

use dicom_core::header::Header;
use dicom_core::{DataElement, PrimitiveValue, Tag, VR};
use dicom_dictionary_std::tags;
use dicom_object::InMemDicomObject;
use encoding_rs as sets;

use crate::syntax::Encoding;

/// A set that the parser decodes byte by byte, so that the bytes can be had back.
const BY_BYTE: &[u8] = b"ISO_IR 100";

const ESCAPE: u8 = 0x1b;

/// Sets that have no code extensions, whatever other values follow.
const WHOLE: [&str; 3] = ["ISO_IR 192", "GB18030", "GBK"];

/// The value of SpecificCharacterSet if it needs escape sequences, and the data set with a set instead that the
/// parser decodes byte by byte.
pub(crate) fn by_byte(bytes: &[u8], encoding: Encoding) -> Option<(String, Vec<u8>)> {
    let place = place(bytes, encoding)?;
    let text = std::str::from_utf8(&bytes[place.clone()]).ok()?.trim_end_matches(['\0', ' ']).to_owned();
    let first = text.split('\\').next().unwrap_or_default().trim();
    let extended = (text.contains('\\') || first.starts_with("ISO 2022")) && !WHOLE.contains(&first);
    if !extended || place.len() < BY_BYTE.len() {
        return None;
    }
    let mut bytes = bytes.to_vec();
    let value = &mut bytes[place];
    value.fill(b' ');
    value[..BY_BYTE.len()].copy_from_slice(BY_BYTE);
    Some((text, bytes))
}

/// The place of SpecificCharacterSet's value, which is among the first elements.
fn place(bytes: &[u8], encoding: Encoding) -> Option<std::ops::Range<usize>> {
    let big = encoding == Encoding::Big;
    let half = |at: usize| {
        let two = [*bytes.get(at)?, *bytes.get(at + 1)?];
        Some(usize::from(if big { u16::from_be_bytes(two) } else { u16::from_le_bytes(two) }))
    };
    let mut at = 0;
    loop {
        let tag = Tag(half(at)? as u16, half(at + 2)? as u16);
        if tag > tags::SPECIFIC_CHARACTER_SET {
            return None;
        }
        let (start, length) = match encoding {
            Encoding::Implicit => (at + 8, half(at + 4)? | half(at + 6)? << 16),
            // The elements before it have short value representations: UL, CS.
            Encoding::Explicit | Encoding::Big => (at + 8, half(at + 6)?),
        };
        let end = start.checked_add(length).filter(|end| *end <= bytes.len())?;
        if tag == tags::SPECIFIC_CHARACTER_SET {
            return Some(start..end);
        }
        at = end;
    }
}

/// Decodes the texts of an object, and of the items in it, that the parser decoded byte by byte.
pub(crate) fn decode(object: &mut InMemDicomObject, sets: &str) {
    let initial = Sets::new(sets);
    decode_in(object, &initial);
    object.put(DataElement::new(tags::SPECIFIC_CHARACTER_SET, VR::CS, PrimitiveValue::from("ISO_IR 192")));
}

/// The recursion is bounded: opening the file checked the nesting of sequences.
fn decode_in(object: &mut InMemDicomObject, initial: &Sets) {
    let mut changed = Vec::new();
    for element in object.iter() {
        let vr = element.vr();
        if matches!(vr, VR::LO | VR::LT | VR::PN | VR::SH | VR::ST | VR::UC | VR::UT) {
            let raw: Option<String> = match element.value().primitive() {
                Some(PrimitiveValue::Str(text)) => Some(text.clone()),
                // A backslash may have been the second byte of a character.
                Some(PrimitiveValue::Strs(texts)) => Some(texts.join("\\")),
                _ => None,
            };
            // Characters beyond a byte come from an item with a set of its own.
            let bytes =
                raw.and_then(|raw| raw.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect::<Option<Vec<u8>>>());
            let Some(bytes) = bytes.filter(|bytes| bytes.iter().any(|byte| *byte >= 0x80 || *byte == ESCAPE)) else {
                continue;
            };
            let many = !matches!(vr, VR::LT | VR::ST | VR::UT);
            let values = initial.decode(&bytes, vr == VR::PN, many);
            changed.push(DataElement::new(element.tag(), vr, PrimitiveValue::Strs(values.into())));
        } else if let Some(items) = element.items() {
            let mut items = items.to_vec();
            items.iter_mut().for_each(|item| decode_in(item, initial));
            changed.push(DataElement::new(element.tag(), vr, dicom_core::value::DataSetSequence::from(items)));
        }
    }
    for element in changed {
        object.put(element);
    }
}

/// The set of bytes below 128 (G0) and of those above (G1).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sets {
    low: Low,
    high: High,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Low {
    Ascii,
    /// JIS X 0208, two bytes a character.
    Kanji,
    /// JIS X 0212, two bytes a character.
    MoreKanji,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum High {
    /// One byte a character; Latin-1 without a set.
    Single(Option<&'static sets::Encoding>),
    /// Half-width katakana of JIS X 0201.
    Katakana,
    /// Two bytes a character: KS X 1001, GB 2312.
    Pairs(&'static sets::Encoding),
}

impl Sets {
    /// The sets at the start of a text, by the first value of SpecificCharacterSet.
    fn new(value: &str) -> Self {
        let first = value.split('\\').next().unwrap_or_default().trim();
        let number = first.rsplit(' ').next().unwrap_or_default();
        let high = match number {
            "13" => High::Katakana,
            "101" => High::Single(Some(sets::ISO_8859_2)),
            "109" => High::Single(Some(sets::ISO_8859_3)),
            "110" => High::Single(Some(sets::ISO_8859_4)),
            "144" => High::Single(Some(sets::ISO_8859_5)),
            "127" => High::Single(Some(sets::ISO_8859_6)),
            "126" => High::Single(Some(sets::ISO_8859_7)),
            "138" => High::Single(Some(sets::ISO_8859_8)),
            "148" => High::Single(Some(sets::WINDOWS_1254)),
            "166" => High::Single(Some(sets::WINDOWS_874)),
            "203" => High::Single(Some(sets::ISO_8859_15)),
            "149" => High::Pairs(sets::EUC_KR),
            "58" => High::Pairs(sets::GBK),
            _ => High::Single(None),
        };
        let low = if number == "87" { Low::Kanji } else { Low::Ascii };
        Sets { low, high }
    }

    /// Switches by an escape sequence; returns its length, or 1 for an unknown one.
    fn escape(&mut self, sequence: &[u8]) -> usize {
        let single = |number| Sets::new(number).high;
        match sequence {
            [ESCAPE, b'$', b'(', b'D', ..] => self.low = Low::MoreKanji,
            [ESCAPE, b'$', b')', b'C', ..] => self.high = single("149"),
            [ESCAPE, b'$', b')', b'A', ..] => self.high = single("58"),
            [ESCAPE, b'$', b'B' | b'@', ..] => self.low = Low::Kanji,
            // The Roman set of JIS X 0201 differs from ASCII in the yen sign and the overline, which names lack.
            [ESCAPE, b'(', b'B' | b'J', ..] => self.low = Low::Ascii,
            [ESCAPE, b')', b'I', ..] => self.high = High::Katakana,
            [ESCAPE, b'-', set, ..] => {
                self.high = match set {
                    b'B' => single("101"),
                    b'C' => single("109"),
                    b'D' => single("110"),
                    b'L' => single("144"),
                    b'G' => single("127"),
                    b'F' => single("126"),
                    b'H' => single("138"),
                    b'M' => single("148"),
                    b'T' => single("166"),
                    b'b' => single("203"),
                    _ => High::Single(None),
                }
            }
            _ => return 1,
        }
        if matches!(sequence, [_, b'$', b'(' | b')', ..]) { 4 } else { 3 }
    }

    /// The values of a text. Each value, line and part of a name begins with the initial sets.
    fn decode(&self, bytes: &[u8], is_name: bool, many: bool) -> Vec<String> {
        let (mut now, mut at, mut values) = (*self, 0, vec![String::new()]);
        while let Some(byte) = bytes.get(at) {
            let (text, taken) = match byte {
                &ESCAPE => {
                    let length = now.escape(&bytes[at..]);
                    (String::new(), length)
                }
                0x80.. => now.high.character(&bytes[at..]),
                _ if now.low != Low::Ascii
                    && *byte > 0x20
                    && bytes.get(at + 1).is_some_and(|next| (0x21..0x7f).contains(next)) =>
                {
                    let pair = [byte | 0x80, bytes[at + 1] | 0x80];
                    let text = match now.low {
                        Low::MoreKanji => decoded(sets::EUC_JP, &[0x8f, pair[0], pair[1]]),
                        _ => decoded(sets::EUC_JP, &pair),
                    };
                    (text, 2)
                }
                b'\\' if many => {
                    values.push(String::new());
                    now = *self;
                    (String::new(), 1)
                }
                byte => {
                    if byte.is_ascii_control() || (is_name && matches!(byte, b'^' | b'=')) {
                        now = *self;
                    }
                    (char::from(*byte).to_string(), 1)
                }
            };
            if let Some(last) = values.last_mut() {
                last.push_str(&text);
            }
            at += taken;
        }
        values
    }
}

impl High {
    /// The first character of these bytes, and the number of its bytes.
    fn character(self, bytes: &[u8]) -> (String, usize) {
        match (self, bytes) {
            (High::Katakana, [byte @ 0xa1..=0xdf, ..]) => {
                let letter = char::from_u32(0xff61 + u32::from(*byte) - 0xa1).unwrap_or(char::REPLACEMENT_CHARACTER);
                (letter.to_string(), 1)
            }
            (High::Pairs(set), [first, second @ 0x80..=0xff, ..]) => (decoded(set, &[*first, *second]), 2),
            (High::Single(Some(set)), [byte, ..]) => (decoded(set, &[*byte]), 1),
            (_, [byte, ..]) => (char::from(*byte).to_string(), 1),
            (_, []) => (String::new(), 1),
        }
    }
}

fn decoded(set: &'static sets::Encoding, bytes: &[u8]) -> String {
    set.decode_without_bom_handling(bytes).0.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(sets: &str, bytes: &[u8]) -> String {
        Sets::new(sets).decode(bytes, true, true).join("\\")
    }

    /// The examples of PS3.5, annexes H, I and K.
    #[test]
    fn names_of_the_standard() {
        let kanji = b"Yamada^Tarou=\x1b$B;3ED\x1b(B^\x1b$BB@O:\x1b(B=\x1b$B$d$^$@\x1b(B^\x1b$B$?$m$&\x1b(B";
        assert_eq!(
            name("\\ISO 2022 IR 87", kanji),
            "Yamada^Tarou=\u{5c71}\u{7530}^\u{592a}\u{90ce}=\u{3084}\u{307e}\u{3060}^\u{305f}\u{308d}\u{3046}"
        );
        let katakana = b"\xd4\xcf\xc0\xde^\xc0\xdb\xb3=\x1b$B;3ED\x1b(J^\x1b$BB@O:\x1b(J";
        assert_eq!(
            name("ISO 2022 IR 13\\ISO 2022 IR 87", katakana),
            "\u{ff94}\u{ff8f}\u{ff80}\u{ff9e}^\u{ff80}\u{ff9b}\u{ff73}=\u{5c71}\u{7530}^\u{592a}\u{90ce}"
        );
        let korean = b"Hong^Gildong=\x1b$)C\xfb\xf3^\x1b$)C\xd1\xce\xd4\xd7=\x1b$)C\xc8\xab^\x1b$)C\xb1\xe6\xb5\xbf";
        assert_eq!(
            name("\\ISO 2022 IR 149", korean),
            "Hong^Gildong=\u{6d2a}^\u{5409}\u{6d1e}=\u{d64d}^\u{ae38}\u{b3d9}"
        );
        let chinese = b"Zhang^XiaoDong=\x1b$)A\xd5\xc5^\x1b$)A\xd0\xa1\xb6\xab=";
        assert_eq!(name("\\ISO 2022 IR 58", chinese), "Zhang^XiaoDong=\u{5f20}^\u{5c0f}\u{4e1c}=");
    }

    #[test]
    fn other_alphabets_by_escape() {
        assert_eq!(
            name("ISO 2022 IR 100\\ISO 2022 IR 144", b"Buc^J\xe9r\xf4me=\x1b-L\xbb\xee\xda"),
            "Buc^J\u{e9}r\u{f4}me=\u{41b}\u{44e}\u{43a}"
        );
        assert_eq!(name("\\ISO 2022 IR 126", b"\x1b-F\xc4\xe9\xef\xed"), "\u{394}\u{3b9}\u{3bf}\u{3bd}");
        // A value and a part of a name start with the initial sets, Latin-1 in this case.
        assert_eq!(name("ISO 2022 IR 100\\ISO 2022 IR 126", b"\x1b-F\xc4^\xc4\\\xc4"), "\u{394}^\u{c4}\\\u{c4}");
    }

    /// The second byte of a character may be a backslash.
    #[test]
    fn a_backslash_within_a_character_does_not_split() {
        let values = Sets::new("\\ISO 2022 IR 87").decode(b"\x1b$B!\\\x1b(B\\x", false, true);
        assert_eq!(values, ["\u{ff0b}", "x"]);
    }

    #[test]
    fn damaged_texts_are_texts() {
        for bytes in [&b"\x1b"[..], b"\x1b$", b"\x1b$B", b"\x1b$B;", b"\x1b$)C\xfb", b"\x1b-", b"\xff\x1b(Z\x80"] {
            name("\\ISO 2022 IR 87", bytes);
        }
    }

    #[test]
    fn only_sets_with_code_extensions_are_replaced() {
        let bytes = b"\x08\x00\x05\x00CS\x10\x00\\ISO 2022 IR 87 \x08\x00\x16\x00UI\x02\x001\x00";
        let (sets, replaced) = by_byte(bytes, Encoding::Explicit).expect("an extension");
        assert_eq!((sets.as_str(), &replaced[8..24]), ("\\ISO 2022 IR 87", &b"ISO_IR 100      "[..]));
        assert_eq!((&replaced[..8], &replaced[24..]), (&bytes[..8], &bytes[24..]));
        assert_eq!(by_byte(&replaced, Encoding::Explicit), None);
        for whole in [&b"\x0a\x00\x00\x00ISO_IR 192"[..], b"\x14\x00\x00\x00ISO_IR 192\\ISO_IR 87"] {
            assert_eq!(by_byte(&[b"\x08\x00\x05\x00", whole].concat(), Encoding::Implicit), None);
        }
    }
}
