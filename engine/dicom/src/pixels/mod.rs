//! Pixels: their storage and their conversion to numbers.

mod color;
mod fragments;
mod lut;
mod values;

use std::path::Path;
use std::sync::Arc;

use dicom_dictionary_std::tags;

pub(crate) use color::{lab_to_rgb, rgb_to_lab};
pub(crate) use fragments::FrameReader;
pub(crate) use lut::Lut;
pub(crate) use values::Scale;
#[cfg(feature = "charls")]
pub(crate) use values::interleave;

use crate::error::DicomError;
use crate::open::{Opened, PixelKind};
use crate::options::{Limits, ReadOptions};
use crate::syntax::{Codec, Encoding, TransferSyntax};
use crate::tags::Attributes;

/// The type of a stored sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the variants say what they are")]
pub enum StoredType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    F64,
}

impl StoredType {
    /// The NumPy name of the type: `uint8`, `int16`, `float32`.
    pub fn name(self) -> &'static str {
        match self {
            StoredType::U8 => "uint8",
            StoredType::I8 => "int8",
            StoredType::U16 => "uint16",
            StoredType::I16 => "int16",
            StoredType::U32 => "uint32",
            StoredType::I32 => "int32",
            StoredType::F32 => "float32",
            StoredType::F64 => "float64",
        }
    }

    /// Bytes of one sample.
    pub fn size(self) -> usize {
        match self {
            StoredType::U8 | StoredType::I8 => 1,
            StoredType::U16 | StoredType::I16 => 2,
            StoredType::U32 | StoredType::I32 | StoredType::F32 => 4,
            StoredType::F64 => 8,
        }
    }
}

/// The meaning of the samples of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Photometric {
    Monochrome1,
    Monochrome2,
    Palette,
    Rgb,
    /// Luminance and chrominance for each pixel.
    YbrFull,
    /// Two pixels share their chrominance.
    YbrFull422,
    /// JPEG 2000's transforms, which its decoder inverts.
    YbrJpeg2000,
}

/// The pixel format of a file.
#[derive(Clone, Debug)]
pub(crate) struct PixelFormat {
    pub rows: usize,
    pub columns: usize,
    pub samples: usize,
    pub frames: usize,
    /// 1, 8, 16, 32 or 64.
    pub bits_allocated: u32,
    pub bits_stored: u32,
    pub high_bit: u32,
    pub signed: bool,
    pub planar: bool,
    pub kind: PixelKind,
    pub photometric: Photometric,
    pub palette: Option<Arc<[Lut; 3]>>,
}

impl PixelFormat {
    /// Reads and checks the attributes of the pixel format.
    pub fn read(attributes: &Attributes<'_>, kind: PixelKind, limits: &Limits) -> Result<Self, DicomError> {
        let unsupported = |what: String| DicomError::Unsupported { path: attributes.path().to_owned(), what };
        let count = |name| attributes.required(name, 1, 65_535).map(|n| n as usize);
        let (rows, columns) = (count(tags::ROWS)?, count(tags::COLUMNS)?);
        let samples = if attributes.has(tags::SAMPLES_PER_PIXEL) { count(tags::SAMPLES_PER_PIXEL)? } else { 1 };
        let frames = match attributes.int(tags::NUMBER_OF_FRAMES)? {
            None => 1,
            Some(n) if n > limits.frames as i64 => {
                let what = format!("{n} frames; the limit is {} (Limits::frames)", limits.frames);
                return Err(DicomError::Limit { path: attributes.path().to_owned(), what });
            }
            Some(n @ 1..) => n as usize,
            Some(n) => {
                let what = format!("{n}; expected 1 or more: set it to the number of images in the file, or remove it");
                return Err(attributes.error(tags::NUMBER_OF_FRAMES, what));
            }
        };
        let (bits_allocated, bits_stored, high_bit) = bits(attributes, kind)?;
        let signed = attributes.int(tags::PIXEL_REPRESENTATION)?.unwrap_or(0) == 1;
        let said = attributes.text(tags::PHOTOMETRIC_INTERPRETATION).unwrap_or_else(|| "MONOCHROME2".to_owned());
        let photometric = match said.as_str() {
            "MONOCHROME1" => Photometric::Monochrome1,
            "MONOCHROME2" => Photometric::Monochrome2,
            "PALETTE COLOR" => Photometric::Palette,
            "RGB" => Photometric::Rgb,
            "YBR_FULL" => Photometric::YbrFull,
            "YBR_FULL_422" => Photometric::YbrFull422,
            "YBR_RCT" | "YBR_ICT" => Photometric::YbrJpeg2000,
            other => return Err(unsupported(format!("PhotometricInterpretation {other} is not supported"))),
        };
        use Photometric::{Monochrome1, Monochrome2, Palette};
        let expected = if matches!(photometric, Monochrome1 | Monochrome2 | Palette) { 1 } else { 3 };
        if samples != expected {
            return Err(attributes.error(tags::SAMPLES_PER_PIXEL, format!("{samples}; {said} has {expected}")));
        }
        let palette = if photometric == Palette { Some(Arc::new(lut::palette(attributes)?)) } else { None };
        let total = (rows * columns * samples) as u64;
        if total > limits.frame_samples {
            let what = format!(
                "frames of {columns} x {rows} pixels; the limit is {} samples (Limits::frame_samples)",
                limits.frame_samples
            );
            return Err(DicomError::Limit { path: attributes.path().to_owned(), what });
        }
        let planar = samples > 1 && attributes.int(tags::PLANAR_CONFIGURATION)?.unwrap_or(0) == 1;
        Ok(PixelFormat {
            rows,
            columns,
            samples,
            frames,
            bits_allocated,
            bits_stored,
            high_bit,
            signed,
            planar,
            kind,
            photometric,
            palette,
        })
    }

    /// The type of one stored sample. Single bits become bytes; for a palette it is the type of its
    /// entries.
    pub fn stored_type(&self) -> StoredType {
        if let Some(palette) = &self.palette {
            return if palette.iter().all(|l| l.bits <= 8) { StoredType::U8 } else { StoredType::U16 };
        }
        match (self.kind, self.bits_allocated, self.signed) {
            (PixelKind::Float, ..) => StoredType::F32,
            (PixelKind::Double, ..) => StoredType::F64,
            (_, 1, _) | (_, 8, false) => StoredType::U8,
            (_, 8, true) => StoredType::I8,
            (_, 16, false) => StoredType::U16,
            (_, 16, true) => StoredType::I16,
            (_, _, false) => StoredType::U32,
            (_, _, true) => StoredType::I32,
        }
    }

    /// Channels of a decoded pixel: 1, or 3 for red, green, blue.
    pub fn channels(&self) -> usize {
        if self.palette.is_some() { 3 } else { self.samples }
    }

    /// Samples of one frame as stored.
    pub fn frame_samples(&self) -> usize {
        self.rows * self.columns * self.samples
    }

    /// The largest unsigned value of the stored bits; supports 64 bits.
    pub fn top(&self) -> f64 {
        2_f64.powi(self.bits_stored as i32) - 1.0
    }

    /// Bytes of one decoded sample.
    pub fn sample_bytes(&self) -> usize {
        (self.bits_allocated as usize).div_ceil(8)
    }

    /// Bytes of one decoded frame.
    pub fn decoded_bytes(&self) -> u64 {
        (self.frame_samples() * self.sample_bytes()) as u64
    }

    /// The bytes of one uncompressed frame whose frames begin at whole bytes.
    fn native_bytes(&self) -> u64 {
        let samples = match self.photometric {
            // Two thirds of the bytes: each pair of pixels is Y, Y, Cb, Cr.
            Photometric::YbrFull422 => self.rows * self.columns * 2,
            _ => self.frame_samples(),
        };
        (samples * self.sample_bytes()) as u64
    }
}

/// BitsAllocated, BitsStored, HighBit.
fn bits(attributes: &Attributes<'_>, kind: PixelKind) -> Result<(u32, u32, u32), DicomError> {
    let allocated = attributes.required(tags::BITS_ALLOCATED, 1, 64)? as u32;
    let fits = match kind {
        PixelKind::Integer => matches!(allocated, 1 | 8 | 16 | 32),
        PixelKind::Float => allocated == 32,
        PixelKind::Double => allocated == 64,
    };
    if !fits {
        return Err(attributes.error(tags::BITS_ALLOCATED, format!("{allocated} is not supported")));
    }
    if kind != PixelKind::Integer || !attributes.has(tags::BITS_STORED) {
        return Ok((allocated, allocated, allocated - 1));
    }
    let stored = attributes.required(tags::BITS_STORED, 1, i64::from(allocated))?;
    let low = stored - 1;
    let high = if attributes.has(tags::HIGH_BIT) {
        attributes.required(tags::HIGH_BIT, low, i64::from(allocated) - 1)?
    } else {
        low
    };
    Ok((allocated, stored as u32, high as u32))
}

/// One frame as stored, before any scaling: little-endian samples, colours interleaved as red,
/// green, blue.
pub(crate) fn stored_frame(
    reader: &FrameReader,
    format: &PixelFormat,
    frame: usize,
    limits: &Limits,
) -> Result<Vec<u8>, DicomError> {
    let fail = |what: String| DicomError::Decode { path: reader.path().to_owned(), frame: frame + 1, what };
    let raw = reader.frame(format, frame)?;
    let syntax = reader.syntax();
    let (mut bytes, color_done) = match syntax.codec {
        Codec::Native | Codec::Fragments => (values::native(raw, format, syntax.encoding == Encoding::Big), false),
        Codec::Unknown => {
            let what = format!("pixels in {syntax} cannot be decoded");
            return Err(DicomError::Unsupported { path: reader.path().to_owned(), what });
        }
        codec => {
            let decoded = (format.frame_samples() * format.sample_bytes()) as u64;
            let most = (16 << 20).max(limits.expansion.saturating_mul(raw.len() as u64));
            if decoded > most {
                let what =
                    format!("frame {}: {} bytes claim to become {decoded} (Limits::expansion)", frame + 1, raw.len());
                return Err(DicomError::Limit { path: reader.path().to_owned(), what });
            }
            let decoded = crate::codec::decode(codec, &raw, format).map_err(|e| match e {
                crate::codec::CodecError::Wrong(what) => fail(format!("{syntax}: {what}")),
                crate::codec::CodecError::Unsupported(what) => {
                    DicomError::Unsupported { path: reader.path().to_owned(), what: format!("{syntax}: {what}") }
                }
            })?;
            (decoded.bytes, decoded.color_done)
        }
    };
    if format.photometric == Photometric::YbrFull422 && matches!(syntax.codec, Codec::Native | Codec::Fragments) {
        bytes = color::spread_422(&bytes, format).map_err(fail)?;
    }
    let wanted = format.frame_samples() * format.sample_bytes();
    if bytes.len() < wanted {
        return Err(fail(format!("{} bytes of pixels; expected {wanted}", bytes.len())));
    }
    bytes.truncate(wanted);
    values::to_stored_bits(&mut bytes, format);
    if matches!(format.photometric, Photometric::YbrFull | Photometric::YbrFull422) && !color_done {
        color::ybr_to_rgb(&mut bytes, format);
    }
    if let Some(palette) = &format.palette {
        bytes = lut::apply_palette(&bytes, format, palette);
    }
    Ok(bytes)
}

/// Rejects compressed bytes that claim a larger size than any codec can produce.
pub(crate) fn check_expansion(path: &Path, compressed: u64, decoded: u64, limits: &Limits) -> Result<(), DicomError> {
    if decoded <= (16 << 20).max(limits.expansion.saturating_mul(compressed)) {
        return Ok(());
    }
    let what = format!("{compressed} bytes of pixels claim to become {decoded} (Limits::expansion)");
    Err(DicomError::Limit { path: path.to_owned(), what })
}

/// The pixels of one file exactly as stored: no rescaling, no inversion.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredPixels {
    /// The numbers of frames, rows, columns and colours.
    pub shape: [usize; 4],
    /// The type of a sample.
    pub stored_type: StoredType,
    /// The samples in that order, little-endian. Colours are red, green, blue, independent of the
    /// stored colour space.
    pub bytes: Vec<u8>,
    /// The transfer syntax of the file.
    pub syntax: TransferSyntax,
}

/// Reads the pixels of one file as stored, for any image, including slide tiles and segmentations.
///
/// # Errors
/// If the file is not DICOM, has no pixels, is damaged, or is beyond the limits.
pub fn read_stored(path: impl AsRef<Path>, options: &ReadOptions) -> Result<StoredPixels, DicomError> {
    let path = path.as_ref();
    let opened = crate::open::open(path, &options.limits)?;
    let Opened { object, syntax, pixels, .. } = &opened;
    let Some(element) = pixels else {
        let modality = Attributes::new(object, path).text(tags::MODALITY).unwrap_or_else(|| "unknown".to_owned());
        let what = format!("an object without pixels (modality {modality}); expected an image");
        return Err(DicomError::Nothing { path: path.to_owned(), what });
    };
    let attributes = Attributes::new(object, path);
    let format = PixelFormat::read(&attributes, element.kind, &options.limits)?;
    let offsets = attributes.longs(tags::EXTENDED_OFFSET_TABLE);
    let reader = FrameReader::new(path, element, syntax, offsets.as_deref(), &format)?;
    let total = (format.rows * format.columns * format.channels()) as u64 * format.frames as u64;
    if total > options.limits.volume_values {
        let what = format!("{total} samples; the limit is {} (Limits::volume_values)", options.limits.volume_values);
        return Err(DicomError::Limit { path: path.to_owned(), what });
    }
    let mut bytes = Vec::new();
    for frame in 0..format.frames {
        bytes.extend(stored_frame(&reader, &format, frame, &options.limits)?);
    }
    Ok(StoredPixels {
        shape: [format.frames, format.rows, format.columns, format.channels()],
        stored_type: format.stored_type(),
        bytes,
        syntax: syntax.clone(),
    })
}
