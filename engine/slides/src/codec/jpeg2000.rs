//! JPEG 2000 tiles: bare codestreams, or JP2 files.

use hayro_jpeg2000::{DecodeSettings, DecoderContext, Image};

use super::Shape;
use crate::error::Fault;
use crate::pixels::ycbcr_to_rgb;

pub(super) fn decode(bytes: &[u8], shape: Shape, is_ycbcr: bool) -> Result<Vec<u8>, Fault> {
    let stream = code_stream(bytes).ok_or_else(|| Fault::damaged("JPEG 2000: no code stream"))?;
    let header = Header::read(stream)?;
    let fits = header.width == shape.width as u64
        && (shape.rows as u64..=shape.height as u64).contains(&header.height)
        && header.components == shape.samples;
    if !fits {
        return Err(Fault::damaged(format!(
            "JPEG 2000 of {} x {} pixels with {} components, expected {} x {} with {}",
            header.width, header.height, header.components, shape.width, shape.rows, shape.samples
        )));
    }
    hearth_jpeg2000::check(stream).map_err(|what| Fault::damaged(format!("JPEG 2000: {what}")))?;
    let fault = |error| Fault::damaged(format!("JPEG 2000: {error}"));
    // TIFF handles palettes; a palette of JP2 would turn one sample into several.
    let settings = DecodeSettings { strict: true, resolve_palette_indices: false, ..DecodeSettings::default() };
    let image = Image::new(bytes, &settings).map_err(fault)?;
    if (u64::from(image.width()), u64::from(image.height())) != (header.width, header.height) {
        return Err(Fault::damaged("JPEG 2000: all components have fewer samples than pixels"));
    }
    let mut context = DecoderContext::default();
    let decoded = image.decode(&mut context).map_err(fault)?;
    let components = decoded.components();
    let (width, pixels) = (image.width() as usize, image.width() as usize * image.height() as usize);
    if components.len() != shape.samples || components.iter().any(|c| c.samples().len() != pixels) {
        return Err(Fault::damaged("JPEG 2000: components of different sizes"));
    }
    let depth = components[0].bit_depth();
    if components.iter().any(|c| c.bit_depth() != depth) || usize::from(depth) > shape.bits {
        return Err(Fault::unsupported(format!("JPEG 2000 with {depth} bits for samples of {}", shape.bits)));
    }
    let rows = pixels / width;
    let mut out = vec![0; rows * shape.row_bytes()];
    let most = ((1u32 << depth) - 1) as f32;
    for (c, component) in components.iter().enumerate() {
        for (y, line) in component.samples().chunks_exact(width).enumerate() {
            let line = &line[..shape.width];
            let row = &mut out[y * shape.row_bytes()..][..shape.row_bytes()];
            if shape.bits == 8 {
                let row = row.iter_mut().skip(c).step_by(shape.samples);
                row.zip(line).for_each(|(out, v)| *out = whole(*v, most) as u8);
            } else {
                let row = row.chunks_exact_mut(2).skip(c).step_by(shape.samples);
                row.zip(line).for_each(|(out, v)| {
                    out.copy_from_slice(&whole(*v, most).to_ne_bytes());
                });
            }
        }
    }
    // The decoder has already converted subsampled colours.
    if is_ycbcr && !header.subsampled && shape.bits == 8 {
        ycbcr_to_rgb(&mut out);
    }
    Ok(out)
}

/// The nearest whole number from 0 to `most`, ties to even, for at most 16 bits. Floats from 2^23
/// to 2^24 are whole numbers, so the addition rounds, eight numbers at a time. `round_ties_even` is
/// a function call per number on CPUs without SSE4.1, which this is compiled for.
fn whole(value: f32, most: f32) -> u16 {
    (value.clamp(0.0, most) + 8_388_608.0).to_bits() as u16
}

/// The code stream: all bytes, or the content of the last such box in a JP2 file, which the decoder
/// uses.
fn code_stream(bytes: &[u8]) -> Option<&[u8]> {
    if bytes.starts_with(&START) {
        return Some(bytes);
    }
    let (mut rest, mut found) = (bytes, None);
    while let Some(([a, b, c, d, kind @ ..], _)) = rest.split_first_chunk::<8>() {
        let (header, length) = match u32::from_be_bytes([*a, *b, *c, *d]) {
            0 => (8, rest.len()),
            1 => (16, usize::try_from(u64::from_be_bytes(rest.get(8..16)?.try_into().ok()?)).ok()?),
            length => (8, length as usize),
        };
        let content = rest.get(header..length)?;
        if kind == b"jp2c" {
            found = Some(content);
        }
        rest = &rest[length..];
    }
    found.filter(|stream| stream.starts_with(&START))
}

/// SOC and the beginning of SIZ, which must follow it.
const START: [u8; 4] = [0xFF, 0x4F, 0xFF, 0x51];

/// The size in the codestream's header, read before the decoder allocates for it.
struct Header {
    width: u64,
    height: u64,
    components: usize,
    subsampled: bool,
}

impl Header {
    fn read(stream: &[u8]) -> Result<Self, Fault> {
        let siz = stream.get(6..).filter(|siz| siz.len() >= 36);
        let siz = siz.ok_or_else(|| Fault::damaged("JPEG 2000: no header"))?;
        let word = |at: usize| u64::from(u32::from_be_bytes([siz[at], siz[at + 1], siz[at + 2], siz[at + 3]]));
        let (right, bottom, left, top) = (word(2), word(6), word(10), word(14));
        let (tile_width, tile_height) = (word(18), word(22));
        let components = usize::from(u16::from_be_bytes([siz[34], siz[35]]));
        let (Some(width), Some(height)) = (right.checked_sub(left), bottom.checked_sub(top)) else {
            return Err(Fault::damaged("JPEG 2000: a size below 0"));
        };
        // Each tile costs memory, so their number is also bounded.
        let tiles = right.div_ceil(tile_width.max(1)).saturating_mul(bottom.div_ceil(tile_height.max(1)));
        if width == 0 || height == 0 || tiles == 0 || tiles > 4096 || left > right / 2 || top > bottom / 2 {
            return Err(Fault::damaged(format!("JPEG 2000: {width} x {height} pixels in {tiles} tiles")));
        }
        let list = siz[36..].chunks_exact(3).take(components);
        Ok(Header { width, height, components, subsampled: list.clone().any(|c| (c[1], c[2]) != (1, 1)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whole_numbers_are_as_the_processor_rounds(
            value in prop_oneof![-300.0..70_000.0_f32, (-600..140_000_i32).prop_map(|half| half as f32 / 2.0), any::<f32>()],
            depth in 1..=16_u32,
        ) {
            let most = ((1_u32 << depth) - 1) as f32;
            prop_assert_eq!(whole(value, most), value.round_ties_even().clamp(0.0, most) as u16);
        }
    }
}
