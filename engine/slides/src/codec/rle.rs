//! DICOM's run-length encoding (PS3.5, annex G): a PackBits segment for each byte of a pixel, the
//! highest byte of a sample first.

use super::{Shape, packbits};
use crate::error::Fault;

/// The header: the number of segments and the offsets of up to 15.
const HEADER: usize = 64;

pub(super) fn decode(bytes: &[u8], shape: Shape) -> Result<Vec<u8>, Fault> {
    let header = bytes.get(..HEADER).ok_or_else(|| Fault::damaged("RLE: no header"))?;
    let words: Vec<usize> = header.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word) as usize).collect();
    let size = shape.bits.div_ceil(8);
    let count = size * shape.samples;
    if words[0] != count || count >= words.len() {
        return Err(Fault::damaged(format!("RLE: {} segments, expected {count}", words[0])));
    }
    let plane = Shape { samples: 1, bits: 8, ..shape };
    let pixels = shape.width * shape.rows;
    let mut out = vec![0; pixels * count];
    for (i, begin) in words[1..=count].iter().enumerate() {
        let end = if i + 1 < count { words[i + 2] } else { bytes.len() };
        let segment = bytes.get(*begin..end).ok_or_else(|| Fault::damaged(format!("RLE: no segment {}", i + 1)))?;
        let unpacked = packbits::unpack(segment, plane)?;
        if unpacked.len() < pixels {
            let got = unpacked.len();
            return Err(Fault::damaged(format!("RLE: {got} bytes in segment {}, expected {pixels}", i + 1)));
        }
        // The byte of a sample that the segment holds, in the machine's order.
        let (sample, from_high) = (i / size, i % size);
        let byte = if cfg!(target_endian = "little") { size - 1 - from_high } else { from_high };
        let places = out.iter_mut().skip(sample * size + byte).step_by(count);
        places.zip(unpacked).for_each(|(out, v)| *out = v);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(segments: &[&[u8]]) -> Vec<u8> {
        let mut words = vec![segments.len() as u32];
        let (mut at, mut body) = (HEADER as u32, Vec::new());
        for segment in segments {
            words.push(at);
            body.push(segment.len() as u8 - 1);
            body.extend_from_slice(segment);
            at += segment.len() as u32 + 1;
        }
        words.resize(HEADER / 4, 0);
        words.iter().flat_map(|word| word.to_le_bytes()).chain(body).collect()
    }

    #[test]
    fn segments_are_the_bytes_of_pixels() {
        let rgb = Shape { width: 2, height: 1, rows: 1, samples: 3, bits: 8 };
        let colours = packed(&[&[1, 4], &[2, 5], &[3, 6]]);
        assert_eq!(decode(&colours, rgb).expect("sound"), [1, 2, 3, 4, 5, 6]);
        let wide = Shape { samples: 1, bits: 16, ..rgb };
        let expected: Vec<u8> = [0x0102u16, 0x0304].iter().flat_map(|v| v.to_ne_bytes()).collect();
        assert_eq!(decode(&packed(&[&[1, 3], &[2, 4]]), wide).expect("sound"), expected);
        for cut in 0..colours.len() {
            assert!(decode(&colours[..cut], rgb).is_err(), "{cut}");
        }
        assert!(decode(&colours, wide).is_err(), "other segments than bytes of a pixel");
    }
}
