//! Assembles regions from tiles.

use std::ops::Range;

use rayon::prelude::*;

use crate::error::Fault;
use crate::tiff::Tile;

/// The tiling of an image, and the size of a pixel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    /// The width of the whole image in pixels.
    pub width: usize,
    pub height: usize,
    pub tile_width: usize,
    pub tile_height: usize,
    /// The number of tiles in a row.
    pub across: usize,
    /// Bytes of a pixel.
    pub pixel: usize,
}

/// A rectangle in pixels of the image; it may lie partly or completely outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rect {
    pub x: i64,
    pub y: i64,
    pub width: usize,
    pub height: usize,
}

impl Grid {
    /// The index of the tile that equals a rectangle, if that lies completely within the image.
    pub fn whole_tile(&self, rect: Rect) -> Option<usize> {
        let (x, y) = (usize::try_from(rect.x).ok()?, usize::try_from(rect.y).ok()?);
        let inside = x.checked_add(rect.width)? <= self.width && y.checked_add(rect.height)? <= self.height;
        let size = (rect.width, rect.height) == (self.tile_width, self.tile_height);
        let aligned = size && x % self.tile_width == 0 && y % self.tile_height == 0;
        (inside && aligned).then(|| y / self.tile_height * self.across + x / self.tile_width)
    }

    /// Bytes of the pixels of a whole tile.
    pub fn tile_bytes(&self) -> usize {
        self.tile_width * self.tile_height * self.pixel
    }
}

/// The part of `start..start + len` within `0..end`, possibly empty.
fn within(start: i64, len: usize, end: usize) -> Range<usize> {
    let cut = |at: i64| at.clamp(0, end as i64) as usize;
    cut(start)..cut(start.saturating_add(len as i64))
}

/// Repeats a pixel. The output must be all 0 before.
pub(crate) fn paint(out: &mut [u8], pixel: &[u8]) {
    match pixel {
        [0, rest @ ..] if rest.iter().all(|v| *v == 0) => {}
        [first, rest @ ..] if rest.iter().all(|v| v == first) => out.fill(*first),
        _ => out.chunks_exact_mut(pixel.len()).for_each(|p| p.copy_from_slice(pixel)),
    }
}

/// Fills `out` (`rect.height * rect.width` pixels, all 0) with the tiles that `tile` returns. Each
/// tile is requested once, in parallel. Outside the image, and for missing tiles (`None`),
/// `background` (the bytes of a pixel) is used.
pub(crate) fn fill<T: AsRef<Tile> + Send>(
    out: &mut [u8],
    grid: Grid,
    rect: Rect,
    background: &[u8],
    tile: impl Fn(usize) -> Result<Option<T>, Fault> + Sync,
) -> Result<(), Fault> {
    let (columns, rows) = (within(rect.x, rect.width, grid.width), within(rect.y, rect.height, grid.height));
    if columns.is_empty() || rows.is_empty() {
        paint(out, background);
        return Ok(());
    }
    let row_bytes = rect.width * grid.pixel;
    // Neither is negative: the clipped rectangle begins at or after the rectangle's edge.
    let (left, top) = ((columns.start as i64 - rect.x) as usize, (rows.start as i64 - rect.y) as usize);
    let (above, rest) = out.split_at_mut(top * row_bytes);
    let (mut rest, below) = rest.split_at_mut(rows.len() * row_bytes);
    paint(above, background);
    paint(below, background);

    // One band for each row of tiles: bands write disjoint memory.
    let mut bands = Vec::new();
    let mut y = rows.start;
    while y < rows.end {
        let end = ((y / grid.tile_height + 1) * grid.tile_height).min(rows.end);
        let (pixels, behind) = rest.split_at_mut((end - y) * row_bytes);
        bands.push(Band { grid, background, pixels, row_bytes, y, columns: columns.clone(), left });
        rest = behind;
        y = end;
    }
    let tiles = columns.start / grid.tile_width..(columns.end - 1) / grid.tile_width + 1;
    // With enough bands for all threads each band processes its tiles one by one, so that few are
    // in memory at once.
    let one_by_one = tiles.len() == 1 || bands.len() >= 2 * rayon::current_num_threads();
    let fill_band = |mut band: Band| {
        band.paint_margins();
        let first = band.y / grid.tile_height * grid.across;
        if one_by_one {
            return tiles.clone().try_for_each(|i| band.put(i, tile(first + i)?.as_ref().map(AsRef::as_ref)));
        }
        let row: Vec<Option<T>> = tiles.clone().into_par_iter().map(|i| tile(first + i)).collect::<Result<_, _>>()?;
        tiles.clone().zip(row).try_for_each(|(i, tile)| band.put(i, tile.as_ref().map(AsRef::as_ref)))
    };
    if bands.len() == 1 {
        return bands.into_iter().try_for_each(fill_band);
    }
    bands.into_par_iter().try_for_each(fill_band)
}

/// Rows of the result that lie within one row of tiles.
struct Band<'a> {
    grid: Grid,
    background: &'a [u8],
    pixels: &'a mut [u8],
    row_bytes: usize,
    /// The row of the image of the first row.
    y: usize,
    /// The columns of the image in the result, and the column of the result of the first one.
    columns: Range<usize>,
    left: usize,
}

impl Band<'_> {
    /// Paints the margins left and right of the image.
    fn paint_margins(&mut self) {
        let image = self.left * self.grid.pixel..(self.left + self.columns.len()) * self.grid.pixel;
        if image.len() < self.row_bytes {
            for row in self.pixels.chunks_exact_mut(self.row_bytes) {
                paint(&mut row[..image.start], self.background);
                paint(&mut row[image.end..], self.background);
            }
        }
    }

    /// Copies the overlap of the band and the tile in column `column` of the grid.
    fn put(&mut self, column: usize, tile: Option<&Tile>) -> Result<(), Fault> {
        let Grid { tile_width, tile_height, pixel, .. } = self.grid;
        let x = column * tile_width;
        let (from, to) = (self.columns.start.max(x), self.columns.end.min(x + tile_width));
        let len = (to - from) * pixel;
        let target = (self.left + from - self.columns.start) * pixel;
        for (i, row) in self.pixels.chunks_exact_mut(self.row_bytes).enumerate() {
            let row = &mut row[target..target + len];
            let Some(tile) = tile else {
                paint(row, self.background);
                continue;
            };
            let at = ((self.y % tile_height + i) * tile.width + from - x) * pixel;
            let pixels = tile.bytes.get(at..at + len);
            row.copy_from_slice(pixels.ok_or_else(|| Fault::damaged("a tile with fewer rows than it should have"))?);
        }
        Ok(())
    }
}
