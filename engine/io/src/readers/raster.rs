use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use hearth_image::{Image, affine, host_device};
use zune_bmp::BmpDecoder;
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::{Probe, ReadError, ReadOptions, Reader, check_room};

/// The maximum number of bytes of an unpacked picture.
const MAX_BYTES: u64 = 4 << 30;
/// The maximum number of bytes of pixels for each byte of a file: the ratio of deflate. JPEG needs
/// at least a bit for a block, BMP two bytes for a run of 255 pixels.
const MOST_PACKED: u64 = 1032;
/// The maximum width and height.
const MAX_SIDE: usize = 1 << 17;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const JPEG: &[u8] = b"\xff\xd8\xff";

/// Reads PNG, JPEG and BMP like MONAI's `PILReader`: `[C, W, H, 1]` with the values of the file (0
/// to 255, or 65535) and the identity affine.
///
/// Grey pictures have one channel (two with alpha), colour pictures three (four with alpha). As in
/// PIL, a picture with a palette has its indices, which are labels where it is a label map, and a picture
/// of single bits has 0 and 1.
#[derive(Clone, Copy, Debug, schemars::JsonSchema)]
pub struct RasterReader;

impl Reader for RasterReader {
    fn name(&self) -> &'static str {
        "RasterReader"
    }

    fn precedence(&self) -> u32 {
        2
    }

    fn suffixes(&self) -> &[&str] {
        &[".png", ".jpg", ".jpeg", ".bmp"]
    }

    fn recognizes(&self, probe: &Probe<'_>) -> bool {
        [PNG, JPEG].iter().any(|magic| probe.start.starts_with(magic))
            // `BM` alone is too short a signature, so the four reserved bytes, which are zero, are
            // compared too.
            || (probe.start.starts_with(b"BM") && probe.start.get(6..10) == Some(&[0; 4]))
    }

    fn read(&self, path: &Path, options: &ReadOptions) -> Result<Image, ReadError> {
        let picture = open(path).and_then(|(file, bytes)| decode(file, bytes));
        let Picture { size: [width, height], channels, stored, values } =
            picture.map_err(|what| ReadError::new(path, what))?;
        Ok(planar(path, &values, [width, height, channels], options.reverse_indexing, stored))
    }
}

/// A file and its length in bytes.
fn open(path: &Path) -> Result<(File, u64), String> {
    let file = hearth_files::open(path).map_err(|error| error.to_string())?;
    let bytes = file.metadata().map_err(|error| error.to_string())?.len();
    Ok((file, bytes))
}

/// The pixels of a picture, row by row, the channels of a pixel next to each other.
struct Picture {
    size: [usize; 2],
    channels: usize,
    stored: &'static str,
    values: Vec<f32>,
}

/// Decodes a file of this length by its first bytes.
fn decode(mut file: File, length: u64) -> Result<Picture, String> {
    let mut start = [0; 8];
    let read = file.read(&mut start).and_then(|count| file.rewind().map(|()| count));
    let start = &start[..read.map_err(|error| error.to_string())?];
    if start.starts_with(PNG) {
        return png(file, length);
    }
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if start.starts_with(JPEG) {
        return jpeg(&bytes);
    }
    if start.starts_with(b"BM") {
        return bmp(&bytes);
    }
    Err("it is neither PNG nor JPEG nor BMP".to_owned())
}

/// Fails if the pixels cannot come from a file of this length, or take too much memory.
fn check(length: u64, [width, height]: [usize; 2], channels: usize, width_of_value: usize) -> Result<(), String> {
    if width > MAX_SIDE || height > MAX_SIDE {
        return Err(format!("{width} x {height} pixels, expected at most {MAX_SIDE} along each axis"));
    }
    let values = (width * height * channels) as u64;
    let bytes = values * width_of_value as u64;
    if bytes > length.saturating_mul(MOST_PACKED).max(MOST_PACKED * 64) {
        return Err(format!("the file is damaged: {width} x {height} pixels cannot be in {length} bytes"));
    }
    if bytes > MAX_BYTES {
        return Err(format!("{width} x {height} pixels take {bytes} bytes, expected at most {MAX_BYTES}"));
    }
    // The file's values, the same in f32, and those in the other order.
    check_room(bytes.saturating_add(2 * 4 * values))
}

fn png(file: File, length: u64) -> Result<Picture, String> {
    let said = |error: png::DecodingError| error.to_string();
    let limits = png::Limits { bytes: MAX_BYTES as usize };
    let mut decoder = png::Decoder::new_with_limits(BufReader::new(file), limits);
    let (kind, depth) = {
        let header = decoder.read_header_info().map_err(said)?;
        (header.color_type, header.bit_depth)
    };
    let is_bits = depth == png::BitDepth::One;
    let packed = kind == png::ColorType::Indexed || (kind == png::ColorType::Grayscale && is_bits);
    // Two and four bits of grey become whole values.
    decoder.set_transformations(if packed { png::Transformations::IDENTITY } else { png::Transformations::EXPAND });
    let mut reader = decoder.read_info().map_err(said)?;
    let size = [reader.info().width as usize, reader.info().height as usize];
    let (color, out_depth) = reader.output_color_type();
    let deep = out_depth == png::BitDepth::Sixteen;
    check(length, size, color.samples(), if deep { 2 } else { 1 })?;
    let mut bytes = vec![0; reader.output_buffer_size().ok_or("its pixels do not fit into memory")?];
    let frame = reader.next_frame(&mut bytes).map_err(said)?;
    bytes.truncate(frame.buffer_size());
    if packed {
        let values = unpacked(&bytes, size, depth as usize, frame.line_size);
        return whole(Picture { size, channels: 1, stored: "uint8", values });
    }
    let (stored, mut values) = match deep {
        true => {
            ("uint16", bytes.chunks_exact(2).map(|pair| f32::from(u16::from_be_bytes([pair[0], pair[1]]))).collect())
        }
        false => ("uint8", widen(&bytes)),
    };
    // The transparent colour of a picture without alpha is no channel.
    let channels = kind.samples();
    if color.samples() > channels {
        values = values.chunks_exact(color.samples()).flat_map(|pixel| &pixel[..channels]).copied().collect();
    }
    whole(Picture { size, channels, stored, values })
}

/// Values of 1, 2, 4 or 8 bits, the first in the highest bits; each row begins with a byte.
fn unpacked(bytes: &[u8], [width, height]: [usize; 2], bits: usize, row: usize) -> Vec<f32> {
    let mask = ((1_u16 << bits) - 1) as u8;
    let value = |line: &[u8], x: usize| {
        let at = x * bits;
        f32::from((line[at / 8] >> (8 - bits - at % 8)) & mask)
    };
    let rows = bytes.chunks_exact(row.max(1)).take(height).filter(|line| line.len() * 8 >= width * bits);
    rows.flat_map(|line| (0..width).map(move |x| value(line, x))).collect()
}

fn jpeg(bytes: &[u8]) -> Result<Picture, String> {
    let options = DecoderOptions::default().set_strict_mode(false).set_max_width(MAX_SIDE).set_max_height(MAX_SIDE);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|error| error.to_string())?;
    let size = decoder.dimensions().ok_or("it has no frame")?;
    let grey = decoder.input_colorspace() == Some(ColorSpace::Luma);
    let (channels, space) = if grey { (1, ColorSpace::Luma) } else { (3, ColorSpace::RGB) };
    check(bytes.len() as u64, size.into(), channels, 1)?;
    decoder.set_options(options.jpeg_set_out_colorspace(space));
    let pixels = decoder.decode().map_err(|error| error.to_string())?;
    whole(Picture { size: size.into(), channels, stored: "uint8", values: widen(&pixels) })
}

fn bmp(bytes: &[u8]) -> Result<Picture, String> {
    if let Some(picture) = indexed_bmp(bytes)? {
        return Ok(picture);
    }
    let options = DecoderOptions::default().set_max_width(MAX_SIDE).set_max_height(MAX_SIDE);
    let mut decoder = BmpDecoder::new_with_options(ZCursor::new(bytes), options);
    // Its errors have a form for programmers alone.
    decoder.decode_headers().map_err(|error| format!("{error:?}"))?;
    let size = decoder.dimensions().ok_or("it has no size")?;
    let channels = decoder.colorspace().map_or(0, |space| space.num_components());
    check(bytes.len() as u64, size.into(), channels, 1)?;
    let pixels = decoder.decode().map_err(|error| format!("{error:?}"))?;
    whole(Picture { size: size.into(), channels, stored: "uint8", values: widen(&pixels) })
}

/// The indices of a BMP with a palette, which decoders turn into colours; `None` for other pictures.
fn indexed_bmp(bytes: &[u8]) -> Result<Option<Picture>, String> {
    let half = |at: usize| bytes.get(at..at + 2).map(|two| u16::from_le_bytes([two[0], two[1]]));
    let word = |at: usize| bytes.get(at..at + 4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]));
    let (Some(start), Some(40..), Some(width), Some(height)) = (word(10), word(14), word(18), word(22)) else {
        return Ok(None);
    };
    let (bits, packed) = match (half(28), word(30)) {
        (Some(bits @ (1 | 4 | 8)), Some(0)) => (bits, false),
        (Some(bits @ 8), Some(1)) | (Some(bits @ 4), Some(2)) => (bits, true),
        _ => return Ok(None),
    };
    // Rows are stored from bottom to top, unless the height is negative.
    let (upwards, height) = ((height as i32) >= 0, (height as i32).unsigned_abs());
    let (size, bits) = ([width as usize, height as usize], usize::from(bits));
    check(bytes.len() as u64, size, 1, 1)?;
    let row = (size[0] * bits).div_ceil(32) * 4;
    let short = || format!("the file is damaged: {width} x {height} pixels are not all there");
    let pixels = bytes.get(start as usize..).ok_or_else(short)?;
    let mut values = match packed {
        false => unpacked(pixels.get(..row * size[1]).ok_or_else(short)?, size, bits, row),
        true => of_runs(pixels, size, bits),
    };
    if upwards && size[0] > 0 {
        values = values.rchunks_exact(size[0]).flatten().copied().collect();
    }
    whole(Picture { size, channels: 1, stored: "uint8", values }).map(Some)
}

/// The indices of a BMP of run lengths (RLE8, RLE4), from the bottom row to the top; pixels that it leaves out
/// are 0, as in PIL.
fn of_runs(bytes: &[u8], [width, height]: [usize; 2], bits: usize) -> Vec<f32> {
    let mut values = vec![0.0; width * height];
    let (mut x, mut y) = (0, 0);
    let index = |packed: &[u8], place: usize| match bits {
        8 => packed[place],
        _ => packed[place / 2] >> (4 * (1 - place % 2)) & 0xf,
    };
    let mut rest = bytes;
    while let [count, code, after @ ..] = rest {
        rest = after;
        let (packed, count) = match (*count, *code) {
            (0, 0) => {
                (x, y) = (0, y + 1);
                continue;
            }
            (0, 1) => break,
            (0, 2) => {
                let [right, up, after @ ..] = rest else { break };
                (x, y, rest) = (x + usize::from(*right), y + usize::from(*up), after);
                continue;
            }
            (0, count) => {
                let length = (usize::from(count) * bits).div_ceil(8);
                let Some((packed, after)) = rest.split_at_checked(length) else { break };
                // These begin with an even byte.
                rest = after.get(length % 2..).unwrap_or_default();
                (packed.to_vec(), usize::from(count))
            }
            (count, code) => (vec![code; (usize::from(count) * bits).div_ceil(8)], usize::from(count)),
        };
        for place in 0..count {
            if x < width && y < height {
                values[y * width + x] = f32::from(index(&packed, place));
            }
            x += 1;
        }
    }
    values
}

/// Fails if a decoder returned another number of values than its header says.
fn whole(picture: Picture) -> Result<Picture, String> {
    let Picture { size: [width, height], channels, values, .. } = &picture;
    match values.len() == width * height * channels {
        true => Ok(picture),
        false => Err(format!("the file is damaged: {width} x {height} pixels have {} values", values.len())),
    }
}

hearth_registry::entry!(dyn Reader => RasterReader, aliases: &["PILReader"], example: "", build: |_| Ok(Box::new(RasterReader)));

fn widen(values: &[u8]) -> Vec<f32> {
    values.iter().map(|value| f32::from(*value)).collect()
}

/// Creates an image from rows of interleaved pixels.
pub(super) fn planar(
    path: &Path,
    pixels: &[f32],
    [width, height, channels]: [usize; 3],
    reverse_indexing: bool,
    stored_type: &str,
) -> Image {
    let size = if reverse_indexing { [width, height] } else { [height, width] };
    let steps = if reverse_indexing { [channels, channels * width] } else { [channels * width, channels] };
    let mut values = Vec::with_capacity(pixels.len());
    for channel in 0..channels {
        for a in 0..size[0] {
            values.extend((0..size[1]).map(|b| pixels[channel + a * steps[0] + b * steps[1]]));
        }
    }
    let mut image = Image::from_values(values, [channels, size[0], size[1], 1], affine::IDENTITY, &host_device());
    let mut original_shape = size.to_vec();
    if channels > 1 {
        original_shape.push(channels);
    }
    image.meta.path = Some(path.to_owned());
    image.meta.spatial_dims = 2;
    image.meta.stored_type = stored_type.to_owned();
    image.meta.original_shape = original_shape;
    image.meta.original_channel_dim = (channels > 1).then_some(-1);
    image
}
