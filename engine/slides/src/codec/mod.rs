//! Decodes the bytes of a tile or strip to its samples. Codecs are third-party crates; their
//! failures, including panics, become errors.

mod jpeg;
mod jpeg2000;
mod packbits;
pub(crate) mod predictor;
mod rle;
mod stream;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use jpeg::JpegColor;

use crate::error::Fault;

/// The compression of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Lzw,
    Deflate,
    PackBits,
    Zstd,
    Jpeg,
    /// JPEG 2000 with the colours of the photometric interpretation.
    Jpeg2000,
    /// Aperio's JPEG 2000 in YCbCr, regardless of the photometric interpretation.
    Jpeg2000YCbCr,
    /// DICOM's run lengths: PackBits, one segment for each byte of a pixel.
    Rle,
    Other(u64),
}

impl Compression {
    pub fn of(tag: u64) -> Self {
        match tag {
            1 => Compression::None,
            5 => Compression::Lzw,
            7 => Compression::Jpeg,
            8 | 32946 => Compression::Deflate,
            32773 => Compression::PackBits,
            33003 => Compression::Jpeg2000YCbCr,
            33005 | 34712 => Compression::Jpeg2000,
            34926 | 50000 => Compression::Zstd,
            other => Compression::Other(other),
        }
    }

    pub fn name(self) -> String {
        match self {
            Compression::None => "none".into(),
            Compression::Lzw => "LZW".into(),
            Compression::Deflate => "Deflate".into(),
            Compression::PackBits => "PackBits".into(),
            Compression::Zstd => "ZSTD".into(),
            Compression::Jpeg => "JPEG".into(),
            Compression::Rle => "RLE".into(),
            Compression::Jpeg2000 | Compression::Jpeg2000YCbCr => "JPEG 2000".into(),
            Compression::Other(2..=4) => "CCITT fax".into(),
            Compression::Other(6) => "old-style JPEG".into(),
            Compression::Other(22610 | 34934) => "JPEG XR".into(),
            Compression::Other(34887) => "LERC".into(),
            Compression::Other(34925) => "LZMA".into(),
            Compression::Other(34933) => "PNG".into(),
            Compression::Other(50001) => "WebP".into(),
            Compression::Other(50002 | 52546) => "JPEG XL".into(),
            Compression::Other(tag) => format!("number {tag}"),
        }
    }

    /// Fails for a compression that is not supported, with a program that converts it.
    pub fn check_supported(self) -> Result<(), Fault> {
        let Compression::Other(tag) = self else { return Ok(()) };
        let by = match tag {
            // Of slides a pyramid stays one.
            50001 => "vips tiffsave IN OUT.tif --tile --pyramid --compression jpeg --Q 90",
            2..=4 | 34925 => "tiffcp -c lzw IN OUT.tif",
            6 => "vips tiffsave IN OUT.tif --compression lzw",
            34887 | 50002 | 52546 => "gdal_translate -co COMPRESS=DEFLATE -co TILED=YES IN OUT.tif",
            22610 | 34933 | 34934 => "bfconvert -compression LZW IN OUT.ome.tif",
            _ => {
                return Err(Fault::unsupported(format!("compression {} is not supported", self.name())));
            }
        };
        Err(Fault::unsupported(format!("compression {} is not supported; convert it: {by}", self.name())))
    }

    /// Whether it encodes pixels rather than bytes, so that byte order and predictors do not apply.
    pub fn is_transform(self) -> bool {
        matches!(self, Compression::Jpeg | Compression::Jpeg2000 | Compression::Jpeg2000YCbCr)
    }

    /// The largest number of bytes that `len` bytes can decode to. A tile that claims more is
    /// rejected before memory is allocated.
    fn most(self, len: u64) -> u64 {
        let ratio = match self {
            Compression::None | Compression::Other(_) => return len,
            Compression::PackBits | Compression::Rle => 64,
            Compression::Deflate => 1032,
            // The longest string of the table for each code of 12 bits.
            Compression::Lzw => 4096,
            // Two codes of one bit for each block of 64 samples, each of which may represent 4 x 4
            // pixels.
            Compression::Jpeg => 4096,
            // Four bytes repeat one for a whole block of 128 KiB.
            Compression::Zstd => 1 << 16,
            // A single bit may omit a resolution of all pixels.
            Compression::Jpeg2000 | Compression::Jpeg2000YCbCr => 1 << 24,
        };
        len.saturating_mul(ratio).saturating_add(1 << 16)
    }

    pub fn check_plausible(self, stored: u64, unpacked: u64) -> Result<(), Fault> {
        self.check_supported()?;
        if unpacked > self.most(stored) {
            return Err(Fault::damaged(format!("{stored} bytes of {} cannot hold {unpacked}", self.name())));
        }
        Ok(())
    }
}

/// The expected content of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub width: usize,
    /// Rows of a whole segment: the last strip of a page may be stored with all rows.
    pub height: usize,
    /// Rows that lie on the page.
    pub rows: usize,
    /// Samples of a pixel in this segment.
    pub samples: usize,
    /// Bits of a sample.
    pub bits: usize,
}

impl Shape {
    pub fn row_bytes(self) -> usize {
        (self.width * self.samples * self.bits).div_ceil(8)
    }
}

/// Returns at least `rows * row_bytes` bytes: the stored samples, row by row. Those of JPEG,
/// JPEG 2000 and RLE are in the machine's byte order; colours of the first two are RGB.
pub(crate) fn decode(
    compression: Compression,
    bytes: Vec<u8>,
    shape: Shape,
    jpeg_tables: Option<&[u8]>,
    color: JpegColor,
) -> Result<Vec<u8>, Fault> {
    let work = || match compression {
        Compression::None => Ok(bytes),
        Compression::Lzw => stream::lzw(&bytes, shape),
        Compression::Deflate => stream::deflate(&bytes, shape),
        Compression::Zstd => stream::zstd(&bytes, shape),
        Compression::PackBits => packbits::unpack(&bytes, shape),
        Compression::Rle => rle::decode(&bytes, shape),
        Compression::Jpeg => jpeg::decode(bytes, shape, jpeg_tables, color),
        Compression::Jpeg2000 => jpeg2000::decode(&bytes, shape, color == JpegColor::YCbCr),
        Compression::Jpeg2000YCbCr => jpeg2000::decode(&bytes, shape, shape.samples == 3),
        Compression::Other(_) => compression.check_supported().map(|()| bytes),
    };
    let decoded = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let why = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Fault::damaged(format!("the decoder failed: {}", why.unwrap_or("no reason given"))))
    })?;
    let wanted = shape.rows * shape.row_bytes();
    if decoded.len() < wanted {
        return Err(Fault::damaged(format!(
            "{} bytes of pixels, expected {wanted} ({} x {} pixels)",
            decoded.len(),
            shape.width,
            shape.rows
        )));
    }
    Ok(decoded)
}
