//! Compressed frames. Each decoder receives the bytes of one frame and its expected size, and
//! checks that the code stream has that size before decoding anything.

mod jpeg;
mod jpeg2000;
mod jpeg_ls;
mod rle;

use std::io::Read;

use crate::pixels::PixelFormat;
use crate::quiet::caught;
use crate::syntax::Codec;

/// A decoded frame: little-endian samples as wide as BitsAllocated, colours interleaved.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub bytes: Vec<u8>,
    /// Whether colours are already red, green, blue.
    pub color_done: bool,
}

/// The reason why a frame could not be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CodecError {
    /// The code stream is damaged, or contradicts the header.
    Wrong(String),
    /// This build, or any build, cannot decode it.
    Unsupported(String),
}

/// Decodes a frame. A panic in a decoder becomes an error.
pub(crate) fn decode(codec: Codec, bytes: &[u8], format: &PixelFormat) -> Result<Decoded, CodecError> {
    let decode = || match codec {
        Codec::Rle => rle::decode(bytes, format),
        Codec::Jpeg => jpeg::decode(bytes, format),
        Codec::JpegLs => jpeg_ls::decode(bytes, format),
        Codec::Jpeg2000 => jpeg2000::decode(bytes, format),
        Codec::HighThroughput => jpeg2000::decode_high_throughput(bytes, format),
        Codec::DeflatedFrames => inflate(bytes, format),
        Codec::Native | Codec::Fragments | Codec::Unknown => {
            Err(CodecError::Unsupported("no decoder for this transfer syntax".to_owned()))
        }
    };
    caught(decode).unwrap_or_else(|panic| Err(CodecError::Wrong(format!("the decoder panicked: {panic}"))))
}

/// A separately deflated frame. Single bits are unpacked.
fn inflate(bytes: &[u8], format: &PixelFormat) -> Result<Decoded, CodecError> {
    let samples = format.frame_samples();
    let size = if format.bits_allocated == 1 { samples.div_ceil(8) } else { samples * format.sample_bytes() };
    let mut out = Vec::new();
    flate2::read::DeflateDecoder::new(bytes)
        .take(size as u64)
        .read_to_end(&mut out)
        .map_err(|e| CodecError::Wrong(e.to_string()))?;
    if out.len() < size {
        return Err(CodecError::Wrong(format!("inflates to {} bytes; expected {size}", out.len())));
    }
    if format.bits_allocated == 1 {
        out = (0..samples).map(|i| (out[i / 8] >> (i % 8)) & 1).collect();
    }
    Ok(Decoded { bytes: out, color_done: false })
}

/// Checks that the code stream has the size and the colours of the header.
fn check_size(format: &PixelFormat, width: usize, height: usize, components: usize) -> Result<(), CodecError> {
    let PixelFormat { columns, rows, samples, .. } = format;
    if (width, height, components) == (*columns, *rows, *samples) {
        return Ok(());
    }
    Err(CodecError::Wrong(format!(
        "the code stream has {width} x {height} pixels with {components} component(s), the header says {columns} x {rows} with {samples}"
    )))
}

/// Stores samples in their container. Samples with more bits than the container are an error.
fn contain(
    samples: impl ExactSizeIterator<Item = i64>,
    bits: u32,
    format: &PixelFormat,
    color_done: bool,
) -> Result<Decoded, CodecError> {
    let size = format.sample_bytes();
    if bits > format.bits_allocated.max(8) {
        let allocated = format.bits_allocated;
        return Err(CodecError::Wrong(format!("samples of {bits} bits, but BitsAllocated is {allocated}")));
    }
    let mut bytes = Vec::with_capacity(samples.len() * size);
    match size {
        1 => bytes.extend(samples.map(|v| v as u8)),
        2 => samples.for_each(|v| bytes.extend_from_slice(&(v as u16).to_le_bytes())),
        _ => samples.for_each(|v| bytes.extend_from_slice(&(v as u32).to_le_bytes())),
    }
    Ok(Decoded { bytes, color_done })
}
