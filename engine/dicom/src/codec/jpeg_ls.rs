//! JPEG-LS, lossless and near-lossless: greyscale in Rust, colour by CharLS with the feature
//! `charls`.

use super::{CodecError, Decoded, check_size, contain};
use crate::pixels::PixelFormat;

pub(super) fn decode(bytes: &[u8], format: &PixelFormat) -> Result<Decoded, CodecError> {
    let frame = frame(bytes).ok_or_else(|| CodecError::Wrong("no JPEG-LS frame header".to_owned()))?;
    check_size(format, usize::from(frame.width), usize::from(frame.height), usize::from(frame.components))?;
    let bits = u32::from(frame.precision);
    if frame.components > 1 {
        return decode_color(bytes, bits, format);
    }
    let (samples, ..) = jpegls::decode(bytes, u32::from(frame.width), u32::from(frame.height))
        .map_err(|e| CodecError::Wrong(e.to_string()))?;
    contain(samples.iter().map(|v| i64::from(*v)), bits, format, false)
}

struct Frame {
    precision: u8,
    height: u16,
    width: u16,
    components: u8,
}

/// The frame header (SOF55).
fn frame(bytes: &[u8]) -> Option<Frame> {
    let mut rest = bytes.strip_prefix(&[0xff, 0xd8])?;
    while let [0xff, marker, a, b, ..] = *rest {
        if marker == 0xf7 {
            let [precision, h, h2, w, w2, components] = *rest.get(4..10)? else { return None };
            let (height, width) = (u16::from_be_bytes([h, h2]), u16::from_be_bytes([w, w2]));
            return Some(Frame { precision, height, width, components });
        }
        rest = rest.get(2 + usize::from(u16::from_be_bytes([a, b]))..)?;
    }
    None
}

#[cfg(not(feature = "charls"))]
fn decode_color(_: &[u8], _: u32, _: &PixelFormat) -> Result<Decoded, CodecError> {
    Err(CodecError::Unsupported("colour is decoded by CharLS only; build with the feature `charls`".to_owned()))
}

#[cfg(feature = "charls")]
fn decode_color(bytes: &[u8], bits: u32, format: &PixelFormat) -> Result<Decoded, CodecError> {
    // If the end is missing, CharLS searches for the next bit for seconds before it fails.
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    if !bytes[..end].ends_with(&[0xff, 0xd9]) {
        return Err(CodecError::Wrong("the code stream has no end: truncated".to_owned()));
    }
    let out = charls::CharLS::default().decode(bytes).map_err(|e| CodecError::Wrong(e.to_string()))?;
    let (size, pixels) = (if bits > 8 { 2 } else { 1 }, format.rows * format.columns);
    // CharLS keeps the scan's colour layout: planes if each component has its own scan.
    let planes = bytes.windows(2).position(|w| w == [0xff, 0xda]).and_then(|at| bytes.get(at + 4)) == Some(&1);
    let out = if planes { crate::pixels::interleave(&out, pixels, format.samples, size) } else { out };
    if size == 1 {
        contain(out.iter().map(|v| i64::from(*v)), bits, format, false)
    } else {
        contain(out.as_chunks::<2>().0.iter().map(|v| i64::from(u16::from_le_bytes(*v))), bits, format, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::PixelKind;
    use crate::pixels::Photometric;

    /// 3 columns and 2 rows of colours.
    fn color(bits: u32) -> PixelFormat {
        PixelFormat {
            rows: 2,
            columns: 3,
            samples: 3,
            frames: 1,
            bits_allocated: bits.next_multiple_of(8),
            bits_stored: bits,
            high_bit: bits - 1,
            signed: false,
            planar: false,
            kind: PixelKind::Integer,
            photometric: Photometric::Rgb,
            palette: None,
        }
    }

    #[cfg(feature = "charls")]
    #[test]
    fn colours_come_back_however_their_planes_were_interleaved() {
        use charls::{CharLS, FrameInfo, InterleaveMode};
        for bits in [8, 12, 16] {
            let size = color(bits).sample_bytes();
            let samples: Vec<u16> = (0..18_u32).map(|i| (i * 3581 % (1 << bits)) as u16).collect();
            let bytes_of =
                |values: &[u16]| values.iter().flat_map(|v| v.to_le_bytes()[..size].to_vec()).collect::<Vec<u8>>();
            let interleaved = bytes_of(&samples);
            let planes = bytes_of(&(0..18).map(|i| samples[i % 6 * 3 + i / 6]).collect::<Vec<u16>>());
            let frame = || FrameInfo { width: 3, height: 2, bits_per_sample: bits as i32, component_count: 3 };
            for (mode, source) in [
                (InterleaveMode::None, &planes),
                (InterleaveMode::Line, &interleaved),
                (InterleaveMode::Sample, &interleaved),
            ] {
                let mut encoder = CharLS::default();
                encoder.set_interleave_mode(mode).expect("a mode");
                let stream = encoder.encode(frame(), 0, source).expect("encoded");
                let expected = Ok(Decoded { bytes: interleaved.clone(), color_done: false });
                assert_eq!(decode(&stream, &color(bits)), expected, "{bits} bits");
                let padded = decode(&[stream.as_slice(), &[0]].concat(), &color(bits));
                assert_eq!(padded, expected, "{bits} bits, made even");
                let cut = decode(&stream[..stream.len() / 2], &color(bits));
                assert!(
                    matches!(&cut, Err(CodecError::Wrong(what)) if what.contains("cut off")),
                    "{bits} bits: {cut:?}"
                );
            }
        }
    }

    #[cfg(not(feature = "charls"))]
    #[test]
    fn colours_say_which_feature_they_need() {
        let header = [0xff, 0xd8, 0xff, 0xf7, 0, 17, 8, 0, 2, 0, 3, 3];
        let refused = decode(&header, &color(8));
        assert!(matches!(&refused, Err(CodecError::Unsupported(what)) if what.contains("`charls`")), "{refused:?}");
    }
}
