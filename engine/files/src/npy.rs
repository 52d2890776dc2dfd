//! Headers of NumPy's arrays (NEP 1).

use std::fmt;
use std::io::Read;

/// The maximum number of bytes of a header, as in NumPy; headers of numeric arrays have about a
/// hundred.
const MAX_HEADER: usize = 10_000;

/// The most axes of an array, as in NumPy.
const MAX_AXES: usize = 64;

/// The kind of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NpyKind {
    /// A byte that is 0 or 1.
    Bool,
    /// A signed whole number.
    Int,
    /// An unsigned whole number.
    Uint,
    /// A real number.
    Float,
    /// A character of NumPy's for another kind: complex numbers, texts, dates.
    Other(char),
}

/// The type of an array's elements, as NumPy names it: `<f4`, `|u1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NpyType {
    /// The kind of numbers.
    pub kind: NpyKind,
    /// Bytes of an element; of texts characters.
    pub size: u64,
    /// Whether the first byte is the most significant one.
    pub big_endian: bool,
}

impl NpyType {
    /// Reads NumPy's name of a type; none where it is no such name.
    pub fn parse(name: &str) -> Option<Self> {
        let mut letters = name.chars();
        let big_endian = match letters.next()? {
            '<' | '|' => false,
            '>' => true,
            '=' => cfg!(target_endian = "big"),
            _ => return None,
        };
        let kind = match letters.next()? {
            'b' => NpyKind::Bool,
            'i' => NpyKind::Int,
            'u' => NpyKind::Uint,
            'f' => NpyKind::Float,
            other if other.is_ascii_alphabetic() => NpyKind::Other(other),
            _ => return None,
        };
        Some(Self { kind, size: letters.as_str().parse().ok()?, big_endian })
    }
}

impl fmt::Display for NpyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match (self.size, self.big_endian) {
            (1, _) => '|',
            (_, true) => '>',
            (_, false) => '<',
        };
        let kind = match self.kind {
            NpyKind::Bool => 'b',
            NpyKind::Int => 'i',
            NpyKind::Uint => 'u',
            NpyKind::Float => 'f',
            NpyKind::Other(other) => other,
        };
        write!(f, "{order}{kind}{}", self.size)
    }
}

/// The header of an NPY file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyHeader {
    /// The type of the elements.
    pub descr: NpyType,
    /// Whether the first axis is the fastest one.
    pub fortran_order: bool,
    /// The length of each axis.
    pub shape: Vec<u64>,
}

/// Reads the header of an array of numbers. The source is then at the first value. Nothing is allocated for
/// the lengths that the header states.
///
/// # Errors
///
/// A description of what is wrong with the header, as half a sentence.
pub fn npy_header(source: &mut impl Read) -> Result<NpyHeader, String> {
    let not = |what: &str| format!("not an NPY file: {what}");
    let mut bytes = Vec::new();
    let mut more = |bytes: &mut Vec<u8>, count: usize| {
        source.take(count as u64).read_to_end(bytes).map(drop).map_err(|e| not(&e.to_string()))
    };
    more(&mut bytes, 8)?;
    let Some(version) = bytes.strip_prefix(b"\x93NUMPY").and_then(<[u8]>::first) else {
        return Err(not("it begins with other bytes"));
    };
    // Version 1 stores the length in two bytes, later versions in four.
    let size = if *version == 1 { 2 } else { 4 };
    more(&mut bytes, size)?;
    if bytes.len() < 8 + size {
        return Err(not("it ends within its header"));
    }
    let length = bytes[8..].iter().rev().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
    if length > MAX_HEADER {
        return Err(format!("a header of {length} bytes; the limit is {MAX_HEADER}"));
    }
    let start = bytes.len();
    more(&mut bytes, length)?;
    if bytes.len() < start + length {
        return Err(not("it ends within its header"));
    }
    let text = std::str::from_utf8(&bytes[start..]).map_err(|_| not("its header is not text"))?;
    dictionary(text)
}

/// The start of an NPY file of little-endian f32 in C's order, as `numpy.save` writes it: the values follow.
pub fn npy_start(shape: &[u64]) -> Vec<u8> {
    let shape: String = shape.iter().map(|length| format!("{length}, ")).collect();
    // NumPy writes `(3,)` and `(3, 2)`.
    let shape = shape.trim_end();
    let shape = if shape.matches(',').count() > 1 { shape.trim_end_matches(',') } else { shape };
    let mut head = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}), }}");
    // The values begin at a multiple of 64 bytes, behind 10 bytes and a line break.
    let gap = (head.len() + 11).next_multiple_of(64) - head.len() - 11;
    head.extend(std::iter::repeat_n(' ', gap));
    head.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((head.len() as u16).to_le_bytes());
    bytes.extend(head.into_bytes());
    bytes
}

/// The dictionary of a header, a literal of Python with three keys.
fn dictionary(text: &str) -> Result<NpyHeader, String> {
    const RECORDS: &str = "an array of records, or a damaged header; expected one number per element";
    let not = |what: String| format!("not an NPY file: {what}");
    let mut rest = Rest(text);
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    if !rest.take('{') {
        return Err(not("its header is no dictionary".to_owned()));
    }
    while !rest.take('}') {
        let key = rest.quoted().ok_or_else(|| RECORDS.to_owned())?;
        if !rest.take(':') {
            return Err(not(format!("its header has no value for {key:?}")));
        }
        match key {
            "descr" => {
                let name = rest.quoted().ok_or_else(|| RECORDS.to_owned())?;
                descr = Some(NpyType::parse(name).ok_or_else(|| not(format!("its elements are {name:?}")))?);
            }
            "fortran_order" => match rest.word() {
                "True" => fortran_order = Some(true),
                "False" => fortran_order = Some(false),
                other => return Err(not(format!("its fortran_order is {other:?}"))),
            },
            "shape" => shape = Some(rest.lengths().ok_or_else(|| not("its shape is no tuple of lengths".to_owned()))?),
            other => return Err(not(format!("its header has the key {other:?}"))),
        }
        // Only the last entry may end without a comma.
        if !rest.take(',') && !rest.starts('}') {
            return Err(RECORDS.to_owned());
        }
    }
    if !rest.0.trim().is_empty() {
        return Err(not("its header has more than a dictionary".to_owned()));
    }
    match (descr, fortran_order, shape) {
        (Some(descr), Some(fortran_order), Some(shape)) => Ok(NpyHeader { descr, fortran_order, shape }),
        _ => Err(not("its header lacks descr, fortran_order or shape".to_owned())),
    }
}

/// What is left of a header.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn starts(&mut self, wanted: char) -> bool {
        self.0 = self.0.trim_ascii_start();
        self.0.starts_with(wanted)
    }

    /// Skips a character, if it is the next one.
    fn take(&mut self, wanted: char) -> bool {
        let is_next = self.starts(wanted);
        if is_next {
            self.0 = &self.0[wanted.len_utf8()..];
        }
        is_next
    }

    /// A text between quotes; names of types and keys have no escapes.
    fn quoted(&mut self) -> Option<&'a str> {
        let quote = if self.starts('"') { '"' } else { '\'' };
        let (text, rest) = self.0.strip_prefix(quote)?.split_once(quote)?;
        self.0 = rest;
        (!text.contains('\\')).then_some(text)
    }

    /// Letters and digits.
    fn word(&mut self) -> &'a str {
        self.0 = self.0.trim_ascii_start();
        let end = self.0.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    /// `(2, 3)`, `(2,)`, `()`; Python 2 wrote `2L`.
    fn lengths(&mut self) -> Option<Vec<u64>> {
        let mut lengths = Vec::new();
        if !self.take('(') {
            return None;
        }
        while !self.take(')') {
            lengths.push(self.word().trim_end_matches('L').parse().ok()?);
            if lengths.len() > MAX_AXES || (!self.take(',') && !self.starts(')')) {
                return None;
            }
        }
        Some(lengths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(version: u8, header: &str) -> Vec<u8> {
        let length = u16::try_from(header.len()).expect("a short header").to_le_bytes();
        [b"\x93NUMPY", [version, 0].as_slice(), &length, header.as_bytes()].concat()
    }

    fn said(bytes: &[u8]) -> String {
        npy_header(&mut &*bytes).map(drop).expect_err("no header")
    }

    #[test]
    fn headers_are_read_and_absurd_ones_are_errors() {
        let plain = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
        let mut bytes = array(1, plain);
        bytes.extend([7; 4]);
        let mut source = bytes.as_slice();
        assert_eq!(npy_header(&mut source).expect("a header").shape, [2, 3]);
        assert_eq!(source, [7; 4]);
        // With version 3 the first characters of the header are part of its length: 0.6 GB.
        assert!(said(&array(3, plain)).contains("the limit is 10000"));
        let nested = format!("{{'descr': {}", "[".repeat(500));
        assert!(said(&array(1, &nested)).contains("damaged header"));
        assert!(said(b"\x93NUMPY\x01\x00\x40\x00{").contains("not an NPY file"));
        assert!(said(b"RIFF").contains("other bytes"));
    }

    /// What NumPy 1 and 2 write, and Python 2 wrote: `numpy.lib.format.header_data_from_array_1_0`.
    #[test]
    fn every_spelling_of_numpy_is_read() {
        let of = |header: &str| npy_header(&mut array(1, header).as_slice());
        let read = |header: &str| of(header).unwrap_or_else(|error| panic!("{header}: {error}"));
        let whole = read("{'descr': '|u1', 'fortran_order': True, 'shape': (5,), }     \n");
        assert_eq!(whole.descr, NpyType { kind: NpyKind::Uint, size: 1, big_endian: false });
        assert!(whole.fortran_order && whole.shape == [5]);
        assert_eq!(read("{'shape': (), 'fortran_order': False, 'descr': '>i2'}").shape, [0; 0]);
        let old = read("{\"descr\":\"<f8\",\"fortran_order\":False,\"shape\":(3L,4L)}");
        assert_eq!((old.shape, old.descr.to_string()), (vec![3, 4], "<f8".to_owned()));
        assert_eq!(read("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}").descr.kind, NpyKind::Other('c'));
        for damaged in [
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} more",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
            "{'descr': 'f4', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4', 'other': False, 'shape': (1,)}",
            "",
        ] {
            assert!(of(damaged).is_err(), "{damaged}");
        }
    }

    /// The first 128 bytes of `numpy.save` with NumPy 2.3, of arrays of one and three axes.
    #[test]
    fn what_is_written_is_what_numpy_writes() {
        let numpy = |dictionary: &str| {
            let mut bytes = b"\x93NUMPY\x01\x00v\x00".to_vec();
            bytes.extend(format!("{dictionary:<117}\n").bytes());
            bytes
        };
        assert_eq!(npy_start(&[7]), numpy("{'descr': '<f4', 'fortran_order': False, 'shape': (7,), }"));
        assert_eq!(npy_start(&[3, 2, 10]), numpy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, 10), }"));
        let read = npy_header(&mut npy_start(&[3, 2, 10]).as_slice()).expect("a header");
        assert_eq!(read.shape, [3, 2, 10]);
    }
}
