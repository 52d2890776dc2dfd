//! Writing TIFF pyramids from pixels in memory.

use libdeflater::{CompressionLvl, Compressor};
use rayon::prelude::*;

/// The options of writing a pyramid.
#[derive(Clone, Debug, PartialEq)]
pub struct PyramidOptions {
    /// The side of a tile in pixels, a multiple of 16.
    pub tile: usize,
    /// Micrometres per pixel of level 0.
    pub mpp: Option<f64>,
    /// The largest size of the longer side of the smallest level.
    pub smallest: usize,
    /// The `ImageDescription` of level 0.
    pub description: String,
}

impl Default for PyramidOptions {
    fn default() -> Self {
        PyramidOptions { tile: 256, mpp: None, smallest: 256, description: String::new() }
    }
}

/// The file would be too large, or the pixels do not have the size.
#[derive(Debug, thiserror::Error)]
#[error("cannot write a pyramid: {0}")]
pub struct PyramidError(String);

const SHORT: u16 = 3;
const LONG: u16 = 4;
const RATIONAL: u16 = 5;
const ASCII: u16 = 2;

/// The file of a pyramid of `width` x `height` pixels of 8 bits, row by row, with one channel
/// (grey) or three (RGB): tiles, Deflate, each level half of the previous one (means of 2 x 2
/// pixels).
///
/// # Errors
/// If the pixels do not have this size, a tile is not a multiple of 16, or the file would exceed 4
/// GiB.
pub fn pyramid(pixels: &[u8], width: usize, height: usize, options: &PyramidOptions) -> Result<Vec<u8>, PyramidError> {
    let channels = pixels.len() / (width * height).max(1);
    if width == 0 || height == 0 || pixels.len() != width * height * channels || !matches!(channels, 1 | 3) {
        let values = pixels.len();
        return Err(PyramidError(format!("{values} values are not {width} x {height} pixels of 1 or 3 channels")));
    }
    if options.tile == 0 || !options.tile.is_multiple_of(16) {
        return Err(PyramidError(format!("tiles of {} pixels; expected a multiple of 16", options.tile)));
    }
    // Little endian, classic; the first directory's offset is written once it is known.
    let mut file = b"II*\0\0\0\0\0".to_vec();
    let mut link = 4;
    let mut level = Level { width, height, channels, pixels: pixels.to_vec() };
    let mut number = 0;
    loop {
        let scale = width as f64 / level.width as f64;
        link = level.write(&mut file, link, number, scale, options)?;
        if level.width.max(level.height) <= options.smallest.max(1) || level.width.min(level.height) < 2 {
            return Ok(file);
        }
        level = level.half();
        number += 1;
    }
}

struct Level {
    width: usize,
    height: usize,
    channels: usize,
    pixels: Vec<u8>,
}

/// An entry of a directory: tag, type, count, and the bytes of its values.
type Entry = (u16, u16, u32, Vec<u8>);

impl Level {
    /// Appends tiles and directory. `link` is the position of the directory's offset; the result is
    /// the position of the next one's.
    fn write(
        &self,
        file: &mut Vec<u8>,
        link: usize,
        number: usize,
        scale: f64,
        options: &PyramidOptions,
    ) -> Result<usize, PyramidError> {
        let tile = options.tile;
        let across = self.width.div_ceil(tile);
        let count = across * self.height.div_ceil(tile);
        let tiles: Vec<Vec<u8>> =
            (0..count).into_par_iter().map(|i| deflate(&self.tile(i % across, i / across, tile))).collect();
        let (mut offsets, mut lengths) = (Vec::new(), Vec::new());
        for bytes in &tiles {
            offsets.extend(at(file)?.to_le_bytes());
            lengths.extend((bytes.len() as u32).to_le_bytes());
            file.extend_from_slice(bytes);
        }
        let shorts = |values: &[u16]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let long = |value: usize| (value as u32).to_le_bytes().to_vec();
        let channels = self.channels;
        let mut entries: Vec<Entry> = vec![
            (254, LONG, 1, long(usize::from(number > 0))),
            (256, LONG, 1, long(self.width)),
            (257, LONG, 1, long(self.height)),
            (258, SHORT, channels as u32, shorts(&vec![8; channels])),
            (259, SHORT, 1, shorts(&[8])),
            (262, SHORT, 1, shorts(&[if channels == 3 { 2 } else { 1 }])),
        ];
        if number == 0 && !options.description.is_empty() {
            let mut text = options.description.replace('\0', " ").into_bytes();
            text.push(0);
            entries.push((270, ASCII, text.len() as u32, text));
        }
        entries.push((277, SHORT, 1, shorts(&[channels as u16])));
        if let Some(mpp) = options.mpp.filter(|mpp| mpp.is_finite() && *mpp > 0.0) {
            // Pixels per centimetre.
            let fine = (1e4 / (mpp * scale) * 1e4).round().clamp(1.0, f64::from(u32::MAX)) as u32;
            let ratio: Vec<u8> = fine.to_le_bytes().into_iter().chain(10_000_u32.to_le_bytes()).collect();
            entries.extend([(282, RATIONAL, 1, ratio.clone()), (283, RATIONAL, 1, ratio)]);
            entries.push((296, SHORT, 1, shorts(&[3])));
        }
        entries.extend([
            (322, LONG, 1, long(tile)),
            (323, LONG, 1, long(tile)),
            (324, LONG, count as u32, offsets),
            (325, LONG, count as u32, lengths),
        ]);
        // Values of more than four bytes are stored before the directory.
        let mut directory = (entries.len() as u16).to_le_bytes().to_vec();
        for (tag, kind, count, mut values) in entries {
            directory.extend(tag.to_le_bytes());
            directory.extend(kind.to_le_bytes());
            directory.extend(count.to_le_bytes());
            if values.len() > 4 {
                directory.extend(at(file)?.to_le_bytes());
                file.append(&mut values);
            } else {
                values.resize(4, 0);
                directory.append(&mut values);
            }
        }
        let start = at(file)?;
        file[link..link + 4].copy_from_slice(&start.to_le_bytes());
        file.append(&mut directory);
        let next = file.len();
        file.extend([0; 4]);
        Ok(next)
    }

    /// The pixels of a tile; 0 beyond the edges.
    fn tile(&self, column: usize, row: usize, side: usize) -> Vec<u8> {
        let mut tile = vec![0; side * side * self.channels];
        let (x, y) = (column * side, row * side);
        let columns = side.min(self.width - x) * self.channels;
        for i in 0..side.min(self.height - y) {
            let from = ((y + i) * self.width + x) * self.channels;
            let to = i * side * self.channels;
            tile[to..to + columns].copy_from_slice(&self.pixels[from..from + columns]);
        }
        tile
    }

    /// Means of 2 x 2 pixels; the last row and column of odd sizes are repeated.
    fn half(&self) -> Level {
        let (width, height, channels) = (self.width.div_ceil(2), self.height.div_ceil(2), self.channels);
        let mut pixels = vec![0; width * height * channels];
        pixels.par_chunks_mut(width * channels).enumerate().for_each(|(y, row)| {
            let lines = [2 * y, (2 * y + 1).min(self.height - 1)];
            for (x, pixel) in row.chunks_exact_mut(channels).enumerate() {
                let columns = [2 * x, (2 * x + 1).min(self.width - 1)];
                for (c, value) in pixel.iter_mut().enumerate() {
                    let at = |x: usize, y: usize| u16::from(self.pixels[(y * self.width + x) * channels + c]);
                    let sum: u16 =
                        lines.iter().flat_map(|y| columns.iter().map(move |x| (*x, *y))).map(|(x, y)| at(x, y)).sum();
                    *value = ((sum + 2) / 4) as u8;
                }
            }
        });
        Level { width, height, channels, pixels }
    }
}

/// The next byte's offset, on a word boundary.
fn at(file: &mut Vec<u8>) -> Result<u32, PyramidError> {
    if file.len() % 2 == 1 {
        file.push(0);
    }
    u32::try_from(file.len()).map_err(|_| PyramidError("the file would exceed 4 GiB".to_owned()))
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::fastest());
    let mut out = vec![0; compressor.zlib_compress_bound(bytes.len())];
    // Never fails: the buffer has the bound's size.
    let length = compressor.zlib_compress(bytes, &mut out).unwrap_or(0);
    out.truncate(length);
    out
}
