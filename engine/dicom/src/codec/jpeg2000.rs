//! JPEG 2000, and high-throughput JPEG 2000 with the feature `htj2k`.

use hayro_jpeg2000::{DecodeSettings, DecoderContext, Image};

use super::{CodecError, Decoded, check_size, contain};
use crate::pixels::PixelFormat;

/// The content of the SIZ segment.
struct Size {
    width: u32,
    height: u32,
    /// Bits and sign of each component.
    components: Vec<(u8, bool)>,
}

pub(super) fn decode(bytes: &[u8], format: &PixelFormat) -> Result<Decoded, CodecError> {
    let (stream, size) = stream(bytes, format)?;
    if uses_high_throughput(stream) {
        return decode_high_throughput(bytes, format);
    }
    let wrong = |e: hayro_jpeg2000::error::DecodeError| CodecError::Wrong(e.to_string());
    // Strict: a truncated stream is an error, not a blurred image.
    let settings = DecodeSettings { strict: true, ..DecodeSettings::default() };
    let image = Image::new(stream, &settings).map_err(wrong)?;
    let mut context = DecoderContext::default();
    let decoded = image.decode(&mut context).map_err(wrong)?;
    let planes: Vec<&[f32]> = decoded.components().iter().map(|c| c.samples()).collect();
    let pixels = format.rows * format.columns;
    if planes.len() != format.samples || planes.iter().any(|p| p.len() < pixels) {
        return Err(CodecError::Wrong("the decoder returned too few samples".to_owned()));
    }
    let (bits, signed) = size.components[0];
    // The decoder treats all samples as unsigned: it adds half the range, which must be undone for
    // signed samples.
    let offset = if signed { -(1_i64 << (bits - 1)) } else { 0 };
    let (low, high) = (offset, offset + (1_i64 << bits) - 1);
    let value = |i: usize| (planes[i % planes.len()][i / planes.len()].round() as i64 + offset).clamp(low, high);
    contain(
        (0..pixels * planes.len()).map(value),
        u32::from(bits),
        format,
        format.samples == 3 && has_transform(stream),
    )
}

#[cfg(not(feature = "htj2k"))]
pub(super) fn decode_high_throughput(_: &[u8], _: &PixelFormat) -> Result<Decoded, CodecError> {
    Err(CodecError::Unsupported("high-throughput JPEG 2000 needs the feature `htj2k`".to_owned()))
}

#[cfg(feature = "htj2k")]
pub(super) fn decode_high_throughput(bytes: &[u8], format: &PixelFormat) -> Result<Decoded, CodecError> {
    let (stream, size) = stream(bytes, format)?;
    let image = jpeg2k::Image::from_bytes(stream).map_err(|e| CodecError::Wrong(e.to_string()))?;
    let planes: Vec<&[i32]> = image.components().iter().map(|c| c.data()).collect();
    let pixels = format.rows * format.columns;
    if planes.len() != format.samples || planes.iter().any(|p| p.len() < pixels) {
        return Err(CodecError::Wrong("the decoder returned too few samples".to_owned()));
    }
    let value = |i: usize| i64::from(planes[i % planes.len()][i / planes.len()]);
    let color_done = format.samples == 3 && has_transform(stream);
    contain((0..pixels * planes.len()).map(value), u32::from(size.components[0].0), format, color_done)
}

/// The bare code stream (some writers store a JP2 file as the pixels) and its size, checked.
fn stream<'a>(bytes: &'a [u8], format: &PixelFormat) -> Result<(&'a [u8], Size), CodecError> {
    let start = bytes.windows(4).take(4096).position(|w| w == [0xff, 0x4f, 0xff, 0x51]);
    let stream = start.map(|at| &bytes[at..]).ok_or_else(|| CodecError::Wrong("no code stream".to_owned()))?;
    let size = size(stream).ok_or_else(|| CodecError::Wrong("the header of the code stream is damaged".to_owned()))?;
    check_size(format, size.width as usize, size.height as usize, size.components.len())?;
    if size.components.iter().any(|c| *c != size.components[0]) {
        return Err(CodecError::Unsupported("components of different depth".to_owned()));
    }
    hearth_jpeg2000::check(stream).map_err(CodecError::Wrong)?;
    Ok((stream, size))
}

fn size(stream: &[u8]) -> Option<Size> {
    let word = |at: usize| stream.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    let (width, height) = (word(8)?.checked_sub(word(16)?)?, word(12)?.checked_sub(word(20)?)?);
    let count = usize::from(u16::from_be_bytes([*stream.get(40)?, *stream.get(41)?]));
    let components = stream.get(42..42 + 3 * count)?.as_chunks::<3>().0;
    // Components at half resolution do not have one sample per pixel.
    let whole = components.iter().all(|c| c[1..] == [1, 1] && c[0] & 0x7f < 31);
    let components: Vec<_> = components.iter().map(|c| ((c[0] & 0x7f) + 1, c[0] & 0x80 != 0)).collect();
    (whole && !components.is_empty()).then_some(Size { width, height, components })
}

/// The segment of a marker in the main header.
fn segment(stream: &[u8], wanted: u8) -> Option<&[u8]> {
    let mut rest = stream.get(2..)?;
    while let [0xff, marker, a, b, ..] = *rest {
        let length = 2 + usize::from(u16::from_be_bytes([a, b]));
        if marker == wanted {
            return rest.get(4..length);
        }
        // The first tile part ends the main header.
        if marker == 0x90 {
            return None;
        }
        rest = rest.get(length..)?;
    }
    None
}

/// Whether the capabilities (CAP) include part 15.
fn uses_high_throughput(stream: &[u8]) -> bool {
    segment(stream, 0x50).is_some()
}

/// Whether components went through a colour transform (COD), which the decoder undoes.
fn has_transform(stream: &[u8]) -> bool {
    segment(stream, 0x52).is_some_and(|cod| cod.get(4) == Some(&1))
}
