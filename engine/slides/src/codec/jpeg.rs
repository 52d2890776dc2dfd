//! JPEG tiles and strips: abbreviated streams whose tables are in the tag JPEGTables.

use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::Shape;
use crate::error::Fault;

/// The colour space of a pixel with three samples, by the photometric interpretation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JpegColor {
    /// Not converted, unless a JFIF header exists, which only YCbCr has.
    AsStored,
    /// To be converted to RGB.
    YCbCr,
}

const START: [u8; 2] = [0xFF, 0xD8];
const END: [u8; 2] = [0xFF, 0xD9];

pub(super) fn decode(bytes: Vec<u8>, shape: Shape, tables: Option<&[u8]>, color: JpegColor) -> Result<Vec<u8>, Fault> {
    let is_jfif = bytes.get(6..10) == Some(b"JFIF");
    let stream = match tables {
        Some(tables) if !tables.is_empty() => with_tables(&bytes, tables)?,
        _ => bytes,
    };
    if !complete(&stream) {
        return Err(Fault::damaged("JPEG: the data end before the image does"));
    }
    let fault = |error| Fault::damaged(format!("JPEG: {error:?}"));
    let options = DecoderOptions::new_fast()
        .set_strict_mode(true)
        .set_max_width(shape.width + 15)
        .set_max_height(shape.height + 15);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(&stream[..]), options);
    decoder.decode_headers().map_err(fault)?;
    let info = decoder.info().ok_or_else(|| Fault::damaged("JPEG: no frame"))?;
    let (width, height) = (usize::from(info.width), usize::from(info.height));
    if usize::from(info.components) != shape.samples || !matches!(shape.samples, 1 | 3) {
        return Err(Fault::unsupported(format!(
            "JPEG with {} components for {} samples per pixel, expected 1 or 3 of both",
            info.components, shape.samples
        )));
    }
    if width < shape.width || height < shape.rows {
        return Err(Fault::damaged(format!(
            "JPEG of {width} x {height} pixels, expected {} x {}",
            shape.width, shape.rows
        )));
    }
    let out = match (shape.samples, decoder.input_colorspace()) {
        (1, _) => ColorSpace::Luma,
        // With YCbCr output the decoder does not convert the samples.
        (_, Some(ColorSpace::YCbCr)) if color == JpegColor::AsStored && !is_jfif => ColorSpace::YCbCr,
        _ => ColorSpace::RGB,
    };
    decoder.set_options(options.jpeg_set_out_colorspace(out));
    let mut pixels = decoder.decode().map_err(fault)?;
    if pixels.len() != width * height * shape.samples {
        return Err(Fault::damaged(format!("JPEG of {} bytes, expected {width} x {height} pixels", pixels.len())));
    }
    if width > shape.width {
        let row = shape.row_bytes();
        pixels = pixels.chunks_exact(width * shape.samples).flat_map(|wide| &wide[..row]).copied().collect();
    }
    Ok(pixels)
}

/// The tables' stream without its end, and the image's without its start.
fn with_tables(bytes: &[u8], tables: &[u8]) -> Result<Vec<u8>, Fault> {
    let image = bytes.strip_prefix(&START).ok_or_else(|| Fault::damaged("JPEG: no start of image"))?;
    if !tables.starts_with(&START) {
        return Err(Fault::damaged("JPEGTables: no start of image"));
    }
    let tables = tables.strip_suffix(&END).unwrap_or(tables);
    Ok([tables, image].concat())
}

/// Whether the stream has an end-of-image marker. The decoder fills missing parts with gray, which
/// must not be mistaken for tissue.
fn complete(stream: &[u8]) -> bool {
    // At most a few bytes of padding follow the marker, so searching from the end is short.
    stream.windows(2).rev().any(|pair| pair == END)
}
