//! Headers of NumPy arrays.

use std::io::Read;
use std::panic::catch_unwind;

use npyz::NpyHeader;

/// The maximum number of bytes of a header, as in NumPy; headers of numeric arrays have about a
/// hundred.
const MAX_HEADER: usize = 10_000;

/// Reads the header of an array of numbers. The header is checked before npyz parses it, because
/// npyz allocates memory for the stated length and takes exponential time for nested brackets.
/// Afterwards the source is at the first value.
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
    more(&mut bytes, length)?;
    // One pair of brackets around the whole header, one around the shape.
    if bytes[8 + size..].iter().filter(|byte| b"([{".contains(byte)).count() > 2 {
        return Err("an array of records, or a damaged header; expected one number per element".to_owned());
    }
    // npyz multiplies the lengths of the axes, which panics on overflow in checked builds.
    let parsed = catch_unwind(|| NpyHeader::from_reader(&bytes[..]));
    let parsed = parsed.map_err(|_| "an array that is over any limit".to_owned())?;
    parsed.map_err(|e| not(&e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(version: u8, header: &str) -> Vec<u8> {
        let length = u16::try_from(header.len()).expect("a short header").to_le_bytes();
        [b"\x93NUMPY", [version, 0].as_slice(), &length, header.as_bytes()].concat()
    }

    #[test]
    fn headers_are_read_and_absurd_ones_told() {
        let plain = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
        let mut bytes = array(1, plain);
        bytes.extend([7; 4]);
        let mut source = bytes.as_slice();
        assert_eq!(npy_header(&mut source).expect("a header").shape(), [2, 3]);
        assert_eq!(source, [7; 4]);
        let said = |bytes: &[u8]| npy_header(&mut &*bytes).map(drop).expect_err("no header");
        // In version 3 the length has four bytes, so the first characters of the header count as
        // length: 0.6 GB.
        assert!(said(&array(3, plain)).contains("the limit is 10000"));
        let nested = format!("{{'descr': {}", "[".repeat(500));
        assert!(said(&array(1, &nested)).contains("damaged header"));
        assert!(said(b"\x93NUMPY\x01\x00\x40\x00{").contains("not an NPY file"));
        assert!(said(b"RIFF").contains("other bytes"));
    }
}
