use std::io::BufReader;
use std::path::Path;

use hearth_image::{Image, affine, host_device};
use image::{DynamicImage, ImageDecoder, ImageReader, Limits};

use super::{Probe, ReadError, ReadOptions, Reader, check_room};

/// The maximum number of bytes of an unpacked picture.
const MAX_BYTES: u64 = 4 << 30;
/// The maximum number of bytes of pixels for each byte of a file: the ratio of deflate. JPEG needs
/// at least a bit for a block, BMP two bytes for a run of 255 pixels.
const MOST_PACKED: u64 = 1032;
/// The maximum width and height.
const MAX_SIDE: u32 = 1 << 17;

/// Reads PNG, JPEG and BMP like MONAI's `PILReader`: `[C, W, H, 1]` with the values of the file (0
/// to 255, or 65535) and the identity affine.
///
/// Grey pictures have one channel (two with alpha), colour pictures three (four with alpha). A
/// palette is converted to its colours.
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
        [&b"\x89PNG\r\n\x1a\n"[..], b"\xff\xd8\xff"].iter().any(|magic| probe.start.starts_with(magic))
            // `BM` alone is too short a signature, so the four reserved bytes, which are zero, are
            // compared too.
            || (probe.start.starts_with(b"BM") && probe.start.get(6..10) == Some(&[0; 4]))
    }

    fn read(&self, path: &Path, options: &ReadOptions) -> Result<Image, ReadError> {
        let mut limits = Limits::default();
        limits.max_image_width = Some(MAX_SIDE);
        limits.max_image_height = Some(MAX_SIDE);
        limits.max_alloc = Some(MAX_BYTES);
        let file = hearth_files::open(path).map_err(|e| ReadError::new(path, e))?;
        let mut reader =
            ImageReader::new(BufReader::new(file)).with_guessed_format().map_err(|e| ReadError::new(path, e))?;
        reader.limits(limits);
        let decoder = reader.into_decoder().map_err(|e| ReadError::new(path, e))?;
        let (width, height) = decoder.dimensions();
        let length = std::fs::metadata(path).map_err(|e| ReadError::new(path, e))?.len();
        if decoder.total_bytes() > length.saturating_mul(MOST_PACKED).max(MOST_PACKED * 64) {
            let what = format!("the file is damaged: {width} x {height} pixels cannot be in {length} bytes");
            return Err(ReadError::new(path, what));
        }
        let values = u64::from(width) * u64::from(height) * u64::from(decoder.color_type().channel_count());
        // The file's values, the same in f32, and those in the other order.
        check_room(decoder.total_bytes().saturating_add(2 * 4 * values)).map_err(|what| ReadError::new(path, what))?;
        let picture = DynamicImage::from_decoder(decoder).map_err(|e| ReadError::new(path, e))?;
        let (width, height) = (picture.width() as usize, picture.height() as usize);
        let (stored, channels, values): (_, _, Vec<f32>) = match picture {
            DynamicImage::ImageLuma8(p) => ("uint8", 1, widen(&p)),
            DynamicImage::ImageLumaA8(p) => ("uint8", 2, widen(&p)),
            DynamicImage::ImageRgb8(p) => ("uint8", 3, widen(&p)),
            DynamicImage::ImageRgba8(p) => ("uint8", 4, widen(&p)),
            DynamicImage::ImageLuma16(p) => ("uint16", 1, widen(&p)),
            DynamicImage::ImageLumaA16(p) => ("uint16", 2, widen(&p)),
            DynamicImage::ImageRgb16(p) => ("uint16", 3, widen(&p)),
            DynamicImage::ImageRgba16(p) => ("uint16", 4, widen(&p)),
            other => return Err(ReadError::new(path, format!("pixels of type {:?} are not read", other.color()))),
        };
        Ok(planar(path, &values, [width, height, channels], options.reverse_indexing, stored))
    }
}

hearth_registry::entry!(dyn Reader => RasterReader, aliases: &["PILReader"], example: "", build: |_| Ok(Box::new(RasterReader)));

fn widen<T: Copy + Into<f32>>(values: &[T]) -> Vec<f32> {
    values.iter().map(|v| (*v).into()).collect()
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
