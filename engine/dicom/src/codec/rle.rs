//! DICOM's run-length encoding (PS3.5, annex G): a PackBits segment per byte of a sample, the
//! highest byte first.

use super::{CodecError, Decoded};
use crate::pixels::PixelFormat;

pub(super) fn decode(bytes: &[u8], format: &PixelFormat) -> Result<Decoded, CodecError> {
    let wrong = |what: String| CodecError::Wrong(what);
    let (words, _) = bytes.get(..64).ok_or_else(|| wrong("no RLE header".to_owned()))?.as_chunks::<4>();
    let words: Vec<usize> = words.iter().map(|w| u32::from_le_bytes(*w) as usize).collect();
    let (size, pixels) = (format.sample_bytes(), format.rows * format.columns);
    let count = size * format.samples;
    if words[0] != count || count > 15 {
        return Err(wrong(format!("{} RLE segments; expected {count}", words[0])));
    }
    let mut out = vec![0; pixels * count];
    for (i, begin) in words[1..=count].iter().enumerate() {
        let end = words.get(i + 2).copied().filter(|_| i + 1 < count).unwrap_or(bytes.len());
        let segment = bytes.get(*begin..end).ok_or_else(|| wrong(format!("RLE segment {} is missing", i + 1)))?;
        // Segment i is byte `size - 1 - i % size` of sample `i / size`.
        let first = i / size * size + (size - 1 - i % size);
        let got = unpack(segment, out[first..].iter_mut().step_by(count));
        if got < pixels {
            return Err(wrong(format!("RLE segment {} ends after {got} of {pixels} bytes", i + 1)));
        }
    }
    Ok(Decoded { bytes: out, color_done: false })
}

/// Unpacks until either the input or the output ends; returns the number of bytes written.
fn unpack<'a>(mut packed: &[u8], mut out: impl Iterator<Item = &'a mut u8>) -> usize {
    let mut written = 0;
    while let [code, rest @ ..] = packed {
        let length;
        match *code as i8 {
            n @ 0.. => {
                length = (n as usize + 1).min(rest.len());
                for value in &rest[..length] {
                    let Some(slot) = out.next() else { return written };
                    *slot = *value;
                    written += 1;
                }
            }
            -128 => length = 0,
            n => {
                let [value, ..] = rest else { return written };
                for _ in 0..1 - i32::from(n) {
                    let Some(slot) = out.next() else { return written };
                    *slot = *value;
                    written += 1;
                }
                length = 1;
            }
        }
        packed = &rest[length..];
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_packbits() {
        // Apple's Technical Note TN1023.
        let packed = [0xfe, 0xaa, 0x02, 0x80, 0x00, 0x2a, 0xfd, 0xaa, 0x03, 0x80, 0x00, 0x2a, 0x22, 0xf7, 0xaa];
        let expected =
            b"\xaa\xaa\xaa\x80\x00\x2a\xaa\xaa\xaa\xaa\x80\x00\x2a\x22\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa";
        let mut out = [0; 24];
        assert_eq!(unpack(&packed, out.iter_mut()), 24);
        assert_eq!(&out, expected);
        for cut in 0..packed.len() {
            assert!(unpack(&packed[..cut], [0; 24].iter_mut()) < 24);
        }
        assert_eq!(unpack(&packed, [0; 5].iter_mut()), 5, "never beyond the frame");
    }
}
