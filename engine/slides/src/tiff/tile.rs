//! Decodes one tile or strip of a page from its bytes to pixels.

use super::page::{BLACK_IS_ZERO, PALETTE, Page, WHITE_IS_ZERO, YCBCR};
use crate::codec::{self, JpegColor, Shape, predictor};
use crate::error::Fault;
use crate::limits::{Limits, checked_bytes};
use crate::pixels;
use crate::source::Source;

/// The pixels of one tile or strip: rows of `width` pixels in the page's format.
#[derive(Debug)]
pub(crate) struct Tile {
    pub width: usize,
    pub bytes: Vec<u8>,
}

impl Page {
    /// Decodes tile or strip `index`; `None` if the file omits it.
    pub fn tile(&self, source: &Source, limits: &Limits, index: usize) -> Result<Option<Tile>, Fault> {
        self.read_tile(source, limits, index).map_err(|fault| {
            fault.within(|| {
                let kind = if self.segments.tiled { "tile" } else { "strip" };
                format!("page {}, {kind} {index}", self.number)
            })
        })
    }

    /// The rows that a tile or strip must have: tiles are padded to their whole size, the last
    /// strip is not.
    fn rows(&self, index: usize) -> usize {
        let top = index / self.segments.across * self.segments.height;
        if self.segments.tiled { self.segments.height } else { self.segments.height.min(self.height - top) }
    }

    fn read_tile(&self, source: &Source, limits: &Limits, index: usize) -> Result<Option<Tile>, Fault> {
        let format = self.format()?;
        let segments = &self.segments;
        let shape = Shape {
            width: segments.width,
            height: segments.height,
            rows: self.rows(index),
            samples: if segments.planes > 1 { 1 } else { self.samples },
            bits: self.bits[0] as usize,
        };
        let size = |samples: usize, bytes: usize| {
            let sizes = [shape.width, shape.height, samples, bytes].map(|n| n as u64);
            checked_bytes("its pixels", &sizes, limits.tile_bytes)
        };
        let whole = size(format.channels.max(self.samples), format.sample.bytes())?;
        if segments.planes == 1 {
            let Some(bytes) = self.plane(source, shape, index, 0)? else { return Ok(None) };
            let bytes = self.color(bytes)?;
            return Ok(Some(Tile { width: shape.width, bytes }));
        }
        let mut bytes = Vec::new();
        for plane in 0..segments.planes {
            let Some(samples) = self.plane(source, shape, index, plane)? else { continue };
            if bytes.is_empty() {
                bytes = vec![0; whole / shape.height * shape.rows];
            }
            pixels::interleave(&mut bytes, &samples, plane, segments.planes, format.sample.bytes());
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        Ok(Some(Tile { width: shape.width, bytes: self.color(bytes)? }))
    }

    /// The samples of one plane of a tile, of at least a byte each, in the machine's byte order,
    /// with predictors inverted.
    fn plane(&self, source: &Source, shape: Shape, index: usize, plane: usize) -> Result<Option<Vec<u8>>, Fault> {
        let (offset, count) = self.segments.place(index, plane);
        if offset == 0 || count == 0 {
            return Ok(None);
        }
        let row_bytes = shape.row_bytes();
        let wanted = shape.rows * row_bytes;
        self.compression.check_plausible(count, wanted as u64)?;
        // Uncompressed pixels are read up to their size.
        let count = if self.compression == codec::Compression::None { wanted as u64 } else { count };
        let mut stored = source.read(offset, count, "its bytes")?;
        if self.reversed_bits && !self.compression.is_transform() {
            stored.iter_mut().for_each(|b| *b = b.reverse_bits());
        }
        let color = if self.photometric == YCBCR { JpegColor::YCbCr } else { JpegColor::AsStored };
        let mut bytes = codec::decode(self.compression, stored, shape, self.jpeg_tables.as_deref(), color)?;
        bytes.truncate(wanted);
        if self.compression.is_transform() {
            return Ok(Some(bytes));
        }
        let size = shape.bits / 8;
        if self.order.is_foreign() && self.predictor != 3 {
            pixels::swap(&mut bytes, size);
        }
        match (self.predictor, size) {
            (1, _) => {}
            (2, 1..) => {
                bytes.chunks_exact_mut(row_bytes).for_each(|row| predictor::horizontal(row, shape.samples, size));
            }
            (3, 4 | 8) if self.sample_format == 3 => {
                bytes.chunks_exact_mut(row_bytes).for_each(|row| predictor::floating(row, shape.samples, size));
            }
            (other, _) => {
                return Err(Fault::unsupported(format!("predictor {other} with samples of {} bits", shape.bits)));
            }
        }
        if size == 0 {
            bytes = pixels::unpack_bits(&bytes, row_bytes, shape.width * shape.samples, shape.bits);
        }
        Ok(Some(bytes))
    }

    /// Converts stored samples to the colours of the page's format.
    fn color(&self, mut bytes: Vec<u8>) -> Result<Vec<u8>, Fault> {
        let bits = self.bits[0] as usize;
        match self.photometric {
            PALETTE => {
                let palette = self.palette.as_deref().unwrap_or_default();
                // A table may be longer than its indices need.
                return Ok(pixels::look_up(&bytes, bits.div_ceil(8), &palette[..3usize << bits]));
            }
            YCBCR if !self.compression.is_transform() => pixels::ycbcr_to_rgb(&mut bytes),
            WHITE_IS_ZERO | BLACK_IS_ZERO if bits < 8 && !self.keeps_bits => pixels::stretch(&mut bytes, bits),
            _ => {}
        }
        if self.photometric == WHITE_IS_ZERO {
            // Inverting the bits of an unsigned integer subtracts it from its largest value.
            let largest = if self.keeps_bits { 1 } else { u8::MAX };
            bytes.iter_mut().for_each(|b| *b ^= largest);
        }
        Ok(bytes)
    }
}
