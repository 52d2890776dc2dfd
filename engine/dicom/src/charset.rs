//! Character sets (PS3.5, 6.1): the texts of a data set, and of each item that names a set of its own, which
//! applies within it; and code extensions, by which Japanese, Korean and Chinese names switch between sets.
//! The parser knows a single set for the whole file. So it never sees which sets are named, decodes every
//! text byte by byte, and the bytes are decoded again.

use dicom_core::header::Header;
use dicom_core::{DataElement, PrimitiveValue, Tag, VR};
use dicom_dictionary_std::tags;
use dicom_object::InMemDicomObject;
use encoding_rs as sets;

use crate::syntax::Encoding;

/// An unassigned tag under which the parser reads SpecificCharacterSet without obeying it.
const HIDDEN: Tag = Tag(0x0008, 0x0004);

const ESCAPE: u8 = 0x1b;

/// Parses a data set, and decodes its texts. `named` are the places of the headers of SpecificCharacterSet,
/// at any depth.
pub(crate) fn parse(bytes: &[u8], encoding: Encoding, named: &[usize]) -> Result<InMemDicomObject, String> {
    if named.is_empty() {
        return encoding.parse(bytes);
    }
    let mut bytes = bytes.to_vec();
    let element = if encoding == Encoding::Big { 3 } else { 2 };
    for place in named {
        if let Some(byte) = bytes.get_mut(place + element) {
            *byte = HIDDEN.element() as u8;
        }
    }
    encoding.parse(&bytes)
}

/// Decodes the texts of an object that [`parse`] has read, and of the items in it.
pub(crate) fn decode(object: &mut InMemDicomObject) {
    if decode_in(object, Sets::new("")) {
        object.put(DataElement::new(tags::SPECIFIC_CHARACTER_SET, VR::CS, PrimitiveValue::from("ISO_IR 192")));
    }
}

/// Decodes texts with the set that the object names, or else that of the object around it. Returns whether
/// it names one. The recursion is bounded: opening the file checked the nesting of sequences.
fn decode_in(object: &mut InMemDicomObject, around: Sets) -> bool {
    let own = object.take(HIDDEN);
    let names_one = own.is_some();
    let own = own.and_then(|element| match element.value().primitive() {
        // The type of an unassigned tag is unknown without an explicit one.
        Some(PrimitiveValue::U8(bytes)) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Some(value) => Some(value.to_str().into_owned()),
        None => None,
    });
    let own = own.map(|text| text.trim_matches(['\0', ' ']).to_owned()).filter(|text| !text.is_empty());
    let sets = own.map_or(around, |text| Sets::new(&text));
    let changed: Vec<(Tag, VR)> = object
        .iter()
        .filter(|element| element.items().is_some() || raw(element.value().primitive(), element.vr()).is_some())
        .map(|element| (element.tag(), element.vr()))
        .collect();
    for (tag, vr) in changed {
        object.update_value(tag, |value| {
            if let Some(items) = value.items_mut() {
                for item in items {
                    decode_in(item, sets);
                }
            } else if let Some(bytes) = raw(value.primitive(), vr) {
                let many = !matches!(vr, VR::LT | VR::ST | VR::UT);
                let values = sets.decode(&bytes, vr == VR::PN, many);
                *value = PrimitiveValue::Strs(values.into()).into();
            }
        });
    }
    names_one
}

/// The bytes of a text that the parser decoded byte by byte; `None` if they are the same in every set.
fn raw(value: Option<&PrimitiveValue>, vr: VR) -> Option<Vec<u8>> {
    if !matches!(vr, VR::LO | VR::LT | VR::PN | VR::SH | VR::ST | VR::UC | VR::UT) {
        return None;
    }
    let text = match value {
        Some(PrimitiveValue::Str(text)) => text.clone(),
        // A backslash may have been the second byte of a character.
        Some(PrimitiveValue::Strs(texts)) => texts.join("\\"),
        _ => return None,
    };
    let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
    bytes.filter(|bytes| bytes.iter().any(|byte| *byte >= 0x80 || *byte == ESCAPE))
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
    /// Up to four bytes a character, without escape sequences: UTF-8, GB 18030.
    Whole(&'static sets::Encoding),
}

impl Sets {
    /// The sets at the start of a text, by the first value of SpecificCharacterSet.
    fn new(value: &str) -> Self {
        let first = value.split('\\').next().unwrap_or_default().trim();
        // Some files write an underscore instead of the blank.
        let number = first.rsplit([' ', '_']).next().unwrap_or_default();
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
            "192" => High::Whole(sets::UTF_8),
            "GB18030" | "GBK" => High::Whole(sets::GB18030),
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
        if let High::Whole(set) = self.high {
            let text = decoded(set, bytes);
            return if many { text.split('\\').map(str::to_owned).collect() } else { vec![text] };
        }
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

    /// Names in the bytes that pydicom 3.0.2 writes, one for each set that it knows and the standard's examples lack.
    #[test]
    fn names_of_pydicom() {
        for (sets, bytes, expected) in [
            (
                "ISO 2022 IR 6\\ISO 2022 IR 87\\ISO 2022 IR 159",
                &b"A=\x1b$(Dl?\x1b(B^\x1b$BB@O:\x1b(B=b"[..],
                "A=\u{9dd7}^\u{592a}\u{90ce}=b",
            ),
            ("GBK", b"Wang^XiaoDong=\xcd\xf5^\xd0\xa1\xb6\xab", "Wang^XiaoDong=\u{738b}^\u{5c0f}\u{4e1c}"),
            ("ISO_IR 144", b"\xbb\xee\xdace\xdc\xd1yp\xd3", "\u{41b}\u{44e}\u{43a}ce\u{43c}\u{431}yp\u{433}"),
            ("ISO 2022 IR 6\\ISO 2022 IR 144", b"\x1b-L\xbb\xee\xda", "\u{41b}\u{44e}\u{43a}"),
            ("ISO_IR 126", b"\xc4\xe9\xef\xed\xf5\xf3", "\u{394}\u{3b9}\u{3bf}\u{3bd}\u{3c5}\u{3c3}"),
            ("ISO_IR 138", b"\xf9\xf8\xe5\xef", "\u{5e9}\u{5e8}\u{5d5}\u{5df}"),
            ("ISO_IR 127", b"\xe2\xc8\xc7\xe6\xea", "\u{642}\u{628}\u{627}\u{646}\u{64a}"),
            ("ISO_IR 166", b"\xb9\xd2\xc1\xca\xa1", "\u{e19}\u{e32}\u{e21}\u{e2a}\u{e01}"),
            ("ISO_IR 100", b"Buc^J\xe9r\xf4me", "Buc^J\u{e9}r\u{f4}me"),
            ("ISO_IR 148", b"\xc7avu\xfeo\xf0lu", "\u{c7}avu\u{15f}o\u{11f}lu"),
        ] {
            assert_eq!(name(sets, bytes), expected, "{sets}");
        }
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

    /// `pydicom` and the standard's annex J: UTF-8 and GB 18030, whose second byte may be a backslash.
    #[test]
    fn sets_without_escape_sequences() {
        let chinese = "Wang^XiaoDong=\u{738b}^\u{5c0f}\u{4e1c}=";
        assert_eq!(name("ISO_IR 192", chinese.as_bytes()), chinese);
        assert_eq!(name("GB18030", b"Wang^XiaoDong=\xcd\xf5^\xd0\xa1\xb6\xab="), chinese);
        assert_eq!(Sets::new("GBK").decode(b"\x81\x5c\\x", false, true), ["\u{4e57}", "x"]);
        assert_eq!(name("ISO_IR_100", b"B\xe9r"), "B\u{e9}r");
    }

    fn explicit(tag: [u16; 2], vr: &[u8; 2], value: &[u8]) -> Vec<u8> {
        let mut out: Vec<u8> = tag.iter().flat_map(|half| half.to_le_bytes()).chain(*vr).collect();
        match vr {
            b"SQ" => out.extend([&[0, 0][..], &(value.len() as u32).to_le_bytes()].concat()),
            _ => out.extend((value.len() as u16).to_le_bytes()),
        }
        out.extend(value);
        out
    }

    fn item(elements: &[Vec<u8>]) -> Vec<u8> {
        let content = elements.concat();
        [b"\xfe\xff\x00\xe0", &(content.len() as u32).to_le_bytes()[..], &content].concat()
    }

    /// PS3.5, 7.5.3: a set that an item names is valid within it and in the items in it, and ends with it.
    #[test]
    fn a_set_of_an_item_ends_with_the_item() {
        let set = |value: &[u8]| explicit([8, 5], b"CS", value);
        let label = |text: &[u8]| explicit([0x3006, 0x26], b"LO", text);
        let greek = item(&[
            set(b"ISO_IR 126"),
            label(b"\xc4\xe9"),
            explicit([0x3006, 0x39], b"SQ", &item(&[label(b"\xc4\xe9")])),
        ]);
        let bytes = [
            set(b"ISO_IR 192"),
            explicit([0x3006, 0x20], b"SQ", &[greek, item(&[label("\u{e9}".as_bytes())])].concat()),
            explicit([0x4000, 0x10], b"LT", "\u{e9}\u{df}".as_bytes()),
        ]
        .concat();
        let object = crate::open::parsed(&bytes, Encoding::Explicit).expect("parsed");
        let text = |object: &InMemDicomObject, tag| {
            object.get(tag).and_then(|e| e.to_str().ok()).expect("a text").into_owned()
        };
        let items = object.get(tags::STRUCTURE_SET_ROI_SEQUENCE).and_then(|e| e.items()).expect("items");
        assert_eq!(text(&items[0], tags::ROI_NAME), "\u{394}\u{3b9}");
        let inner = items[0].get(tags::ROI_CONTOUR_SEQUENCE).and_then(|e| e.items()).expect("an item");
        assert_eq!(text(&inner[0], tags::ROI_NAME), "\u{394}\u{3b9}");
        assert_eq!(text(&items[1], tags::ROI_NAME), "\u{e9}");
        assert_eq!(text(&object, Tag(0x4000, 0x10)), "\u{e9}\u{df}");
        assert_eq!(text(&object, tags::SPECIFIC_CHARACTER_SET), "ISO_IR 192");
    }
}
