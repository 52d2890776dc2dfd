//! One page of a TIFF: the tiling, storage and meaning of its pixels.

use super::directory::{Directory, Order, Reader};
use super::tags;
use crate::codec::Compression;
use crate::error::Fault;
use crate::raster::{Color, SampleType};

/// One page. Invalid tags are reported when the file is opened, unsupported features when its
/// pixels are requested.
#[derive(Debug)]
pub(crate) struct Page {
    /// The index in the file, from 0.
    pub number: usize,
    pub parent: Option<usize>,
    pub width: usize,
    pub height: usize,
    pub segments: Segments,
    pub compression: Compression,
    pub predictor: u64,
    pub photometric: u64,
    /// The bits of each sample.
    pub bits: Vec<u64>,
    pub sample_format: u64,
    pub samples: usize,
    pub extra_samples: Vec<u64>,
    pub reversed_bits: bool,
    pub palette: Option<Vec<u64>>,
    /// Whether single bits stay 0 and 1.
    pub keeps_bits: bool,
    pub jpeg_tables: Option<Vec<u8>>,
    /// Whether colours are subsampled, for compressions other than JPEG.
    pub subsampled: bool,
    pub order: Order,
    pub is_reduced: bool,
    pub depth: u64,
    pub texts: Texts,
    /// Pixels per centimetre along x and y, if the unit is known.
    pub per_cm: Option<[f64; 2]>,
    pub resolution: [Option<f64>; 2],
    pub resolution_unit: u64,
    pub is_ndpi: bool,
}

/// The descriptions of a page.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    pub description: Option<String>,
    pub make: Option<String>,
    pub model: Option<String>,
    pub software: Option<String>,
    pub date_time: Option<String>,
    pub artist: Option<String>,
    pub xmp: Option<String>,
}

/// The tiles or strips of a page.
#[derive(Debug)]
pub(crate) struct Segments {
    pub tiled: bool,
    /// The width of a segment in pixels, including those beyond the page's edges.
    pub width: usize,
    pub height: usize,
    pub across: usize,
    pub down: usize,
    /// 1, or the number of samples if each has separate segments.
    pub planes: usize,
    offsets: Vec<u64>,
    counts: Vec<u64>,
}

impl Segments {
    /// Offset and length in the file of segment `index` of plane `plane`.
    pub fn place(&self, index: usize, plane: usize) -> (u64, u64) {
        let at = plane * self.across * self.down + index;
        (self.offsets[at], self.counts[at])
    }

    fn read(d: &Directory, reader: &Reader, width: usize, height: usize, planes: usize) -> Result<Self, Fault> {
        let tiled = d.has(tags::TILE_WIDTH) || d.has(tags::TILE_OFFSETS);
        let (seg_width, seg_height, offsets_tag, counts_tag) = if tiled {
            let width = size(d, reader, tags::TILE_WIDTH, "TileWidth")?;
            (width, size(d, reader, tags::TILE_LENGTH, "TileLength")?, tags::TILE_OFFSETS, tags::TILE_BYTE_COUNTS)
        } else {
            let rows = d.uint(reader, tags::ROWS_PER_STRIP)?.unwrap_or(height as u64).min(height as u64) as usize;
            if rows == 0 {
                return Err(Fault::damaged("RowsPerStrip is 0"));
            }
            (width, rows, tags::STRIP_OFFSETS, tags::STRIP_BYTE_COUNTS)
        };
        let (across, down) = (width.div_ceil(seg_width), height.div_ceil(seg_height));
        let wanted = across.checked_mul(down).and_then(|n| n.checked_mul(planes));
        let kind = if tiled { "tiles" } else { "strips" };
        let list = |tag: u16, what: &str| {
            let mut values = d.uints(reader, tag)?.unwrap_or_default();
            match wanted.filter(|n| values.len() >= *n) {
                Some(n) => {
                    values.truncate(n);
                    Ok(values)
                }
                None => Err(Fault::damaged(format!(
                    "{across} x {down} {kind} in {planes} planes, but {} {what}",
                    values.len()
                ))),
            }
        };
        let offsets = list(offsets_tag, "offsets")?;
        let counts = list(counts_tag, "byte counts")?;
        Ok(Segments { tiled, width: seg_width, height: seg_height, across, down, planes, offsets, counts })
    }
}

/// A length in pixels: 1 to 2^31 - 1.
fn size(d: &Directory, reader: &Reader, tag: u16, name: &str) -> Result<usize, Fault> {
    let value = d.uint(reader, tag)?.ok_or_else(|| Fault::damaged(format!("no {name} (tag {tag})")))?;
    match i32::try_from(value) {
        Ok(1..) => Ok(value as usize),
        _ => Err(Fault::damaged(format!("{name} is {value}, expected 1 to {}", i32::MAX))),
    }
}

/// The format of the decoded pixels of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub sample: SampleType,
    pub channels: usize,
    pub color: Color,
}

impl Format {
    /// Bytes of one pixel.
    pub fn pixel(self) -> usize {
        self.channels * self.sample.bytes()
    }
}

pub(crate) const WHITE_IS_ZERO: u64 = 0;
pub(crate) const BLACK_IS_ZERO: u64 = 1;
pub(crate) const RGB: u64 = 2;
pub(crate) const PALETTE: u64 = 3;
pub(crate) const CMYK: u64 = 5;
pub(crate) const YCBCR: u64 = 6;

impl Page {
    pub fn read(d: &Directory, reader: &Reader, number: usize) -> Result<Self, Fault> {
        let uint = |tag: u16, default: u64| d.uint(reader, tag).map(|v| v.unwrap_or(default));
        let width = size(d, reader, tags::IMAGE_WIDTH, "ImageWidth")?;
        let height = size(d, reader, tags::IMAGE_LENGTH, "ImageLength")?;
        let samples = uint(tags::SAMPLES_PER_PIXEL, 1)?;
        if samples == 0 || samples > 1024 {
            return Err(Fault::damaged(format!("SamplesPerPixel is {samples}, expected 1 to 1024")));
        }
        let samples = samples as usize;
        let planar = uint(tags::PLANAR_CONFIGURATION, 1)?;
        if planar != 1 && planar != 2 {
            return Err(Fault::damaged(format!("PlanarConfiguration is {planar}, expected 1 or 2")));
        }
        let planes = if planar == 2 { samples } else { 1 };
        let bits = d.uints(reader, tags::BITS_PER_SAMPLE)?.unwrap_or_else(|| vec![1]);
        if bits.is_empty() {
            return Err(Fault::damaged("BitsPerSample has no value"));
        }
        let compression = Compression::of(uint(tags::COMPRESSION, 1)?);
        let black_is_zero = if samples >= 3 { RGB } else { BLACK_IS_ZERO };
        let subsampling = d.uints(reader, tags::YCBCR_SUBSAMPLING)?.unwrap_or_else(|| vec![2, 2]);
        let resolution = [d.rational(reader, tags::X_RESOLUTION)?, d.rational(reader, tags::Y_RESOLUTION)?];
        let resolution_unit = uint(tags::RESOLUTION_UNIT, 2)?;
        let text = |tag: u16| d.text(reader, tag);
        Ok(Page {
            number,
            parent: d.parent,
            width,
            height,
            segments: Segments::read(d, reader, width, height, planes)?,
            compression,
            predictor: uint(tags::PREDICTOR, 1)?,
            photometric: uint(tags::PHOTOMETRIC, black_is_zero)?,
            bits,
            sample_format: uint(tags::SAMPLE_FORMAT, 1)?,
            samples,
            extra_samples: d.uints(reader, tags::EXTRA_SAMPLES)?.unwrap_or_default(),
            reversed_bits: uint(tags::FILL_ORDER, 1)? == 2,
            palette: d.uints(reader, tags::COLOR_MAP)?,
            keeps_bits: false,
            jpeg_tables: d.raw(reader, tags::JPEG_TABLES)?,
            subsampled: subsampling.iter().any(|s| *s != 1),
            order: reader.order,
            is_reduced: uint(tags::NEW_SUBFILE_TYPE, 0)? & 1 == 1,
            depth: uint(tags::IMAGE_DEPTH, 1)?,
            texts: Texts {
                description: text(tags::IMAGE_DESCRIPTION)?,
                make: text(tags::MAKE)?,
                model: text(tags::MODEL)?,
                software: text(tags::SOFTWARE)?,
                date_time: text(tags::DATE_TIME)?,
                artist: text(tags::ARTIST)?,
                xmp: text(tags::XMP)?,
            },
            per_cm: per_cm(resolution, resolution_unit),
            resolution,
            resolution_unit,
            is_ndpi: d.has(tags::NDPI_FORMAT),
        })
    }

    /// Reads the page as PIL does, as a map of labels needs it: the indices of a palette, and single bits as 0
    /// and 1.
    pub fn keep_labels(&mut self) {
        if self.photometric == PALETTE && self.palette.take().is_some() {
            self.photometric = BLACK_IS_ZERO;
            self.keeps_bits = true;
        }
        self.keeps_bits |= self.bits == [1];
    }

    /// The format of the decoded pixels, if they can be read.
    pub fn format(&self) -> Result<Format, Fault> {
        let unsupported = |what: String| Err(Fault::Unsupported(what));
        self.compression.check_supported()?;
        if self.depth > 1 {
            return unsupported(format!("a volume of {} slices in one page", self.depth));
        }
        let bits = self.bits[0];
        if self.bits.iter().any(|b| *b != bits) {
            return unsupported(format!("samples of different sizes: {:?} bits", self.bits));
        }
        let sample = match (bits, self.sample_format) {
            (1 | 2 | 4 | 8, 1 | 4) => SampleType::U8,
            (8, 2) => SampleType::I8,
            (16, 1 | 4) => SampleType::U16,
            (16, 2) => SampleType::I16,
            (32, 1 | 4) => SampleType::U32,
            (32, 2) => SampleType::I32,
            (32, 3) => SampleType::F32,
            (64, 3) => SampleType::F64,
            (bits, format) => {
                return unsupported(format!(
                    "samples of {bits} bits in format {format}; supported are 1, 2, 4, 8, 16 and 32 bits, and floats of 32 and 64"
                ));
            }
        };
        let transform_codec = self.compression.is_transform();
        if transform_codec && !matches!((sample, bits), (SampleType::U8, 8) | (SampleType::U16, 16)) {
            return unsupported(format!("{} with samples of {bits} bits", self.compression.name()));
        }
        // Writers of RGBA sometimes omit the tag; no writer stores a meaningless fourth sample
        // without it.
        let alpha = |colors: usize| {
            self.samples == colors + 1 && matches!((self.extra_samples.first(), colors), (Some(1 | 2), _) | (None, 3))
        };
        let (channels, color) = match (self.photometric, self.samples) {
            (WHITE_IS_ZERO | BLACK_IS_ZERO, n) => (n, if alpha(1) { Color::GrayAlpha } else { Color::Gray }),
            (RGB, n @ 3..) => (n, if alpha(3) { Color::Rgba } else { Color::Rgb }),
            (PALETTE, 1) if sample == SampleType::U8 || sample == SampleType::U16 => {
                let entries = 3usize << bits;
                let got = self.palette.as_ref().map_or(0, Vec::len);
                if got < entries {
                    return Err(Fault::damaged(format!("a palette of {got} values, expected {entries}")));
                }
                return Ok(Format { sample: SampleType::U8, channels: 3, color: Color::Rgb });
            }
            (CMYK, 4) if !transform_codec => (4, Color::Cmyk),
            (YCBCR, 3) if sample == SampleType::U8 && self.segments.planes == 1 => {
                if self.subsampled && !transform_codec {
                    return unsupported("YCbCr with fewer colour samples than pixels, not JPEG".into());
                }
                (3, Color::Rgb)
            }
            (other, n) => return unsupported(format!("photometric interpretation {other} with {n} samples per pixel")),
        };
        if self.photometric == WHITE_IS_ZERO && !matches!(sample, SampleType::U8 | SampleType::U16) {
            return unsupported(format!("white-is-zero with {} samples", sample.name()));
        }
        Ok(Format { sample, channels, color })
    }

    /// Micrometres per pixel from the resolution tags.
    pub fn mpp(&self) -> Option<[f64; 2]> {
        self.per_cm.map(|[x, y]| [1e4 / x, 1e4 / y])
    }

    /// The description, or an empty string.
    pub fn description(&self) -> &str {
        self.texts.description.as_deref().unwrap_or_default()
    }
}

fn per_cm(resolution: [Option<f64>; 2], unit: u64) -> Option<[f64; 2]> {
    let scale = match unit {
        2 => 1.0 / 2.54,
        3 => 1.0,
        _ => return None,
    };
    match resolution {
        [Some(x), Some(y)] if x > 0.0 && y > 0.0 => Some([x * scale, y * scale]),
        _ => None,
    }
}
