//! JPEG-LS, lossless and near-lossless: greyscale in Rust; colour by CharLS, with the feature `charls`.

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
    let out = charls::CharLS::default().decode(bytes).map_err(|e| CodecError::Wrong(e.to_string()))?;
    let (size, pixels) = (if bits > 8 { 2 } else { 1 }, format.rows * format.columns);
    // CharLS leaves colours as the scan has them: planes where each component has a scan of its own.
    let planes = bytes.windows(2).position(|w| w == [0xff, 0xda]).and_then(|at| bytes.get(at + 4)) == Some(&1);
    let out = if planes { crate::pixels::interleave(&out, pixels, format.samples, size) } else { out };
    if size == 1 {
        contain(out.iter().map(|v| i64::from(*v)), bits, format, false)
    } else {
        contain(out.as_chunks::<2>().0.iter().map(|v| i64::from(u16::from_le_bytes(*v))), bits, format, false)
    }
}
