//! Putting tiles together.

use rayon::prelude::*;

use crate::error::Fault;
use crate::tiff::Tile;

/// Where a rectangle of pixels lies on a grid of tiles, and what a pixel is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    /// Pixels of the whole image.
    pub width: usize,
    pub height: usize,
    pub tile_width: usize,
    pub tile_height: usize,
    /// Tiles in a row.
    pub across: usize,
    /// Bytes of a pixel.
    pub pixel: usize,
}

/// A rectangle in pixels of the image; it may lie partly or wholly outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rect {
    pub x: i64,
    pub y: i64,
    pub width: usize,
    pub height: usize,
}

/// The part of `start..start + len` within `0..end`, empty where there is none.
fn within(start: i64, len: usize, end: usize) -> std::ops::Range<usize> {
    let cut = |at: i64| at.clamp(0, end as i64) as usize;
    cut(start)..cut(start.saturating_add(len as i64))
}

/// Fills `out` (`rect.height * rect.width` pixels, all background) with what `tile` gives. Tiles are asked for once each, in parallel;
/// `None` leaves the background.
pub(crate) fn fill<T: AsRef<Tile> + Send>(
    out: &mut [u8],
    grid: Grid,
    rect: Rect,
    tile: impl Fn(usize) -> Result<Option<T>, Fault> + Sync,
) -> Result<(), Fault> {
    let (columns, rows) = (within(rect.x, rect.width, grid.width), within(rect.y, rect.height, grid.height));
    if columns.is_empty() || rows.is_empty() {
        return Ok(());
    }
    let row_bytes = rect.width * grid.pixel;
    // Both differences are at least 0: the cut range begins at or behind the rectangle's edge.
    let (left, top) = ((columns.start as i64 - rect.x) as usize, (rows.start as i64 - rect.y) as usize);
    let tile_columns = columns.start / grid.tile_width..(columns.end - 1) / grid.tile_width + 1;

    // One band of rows for each row of tiles: bands share no memory.
    let mut bands = Vec::new();
    let mut rest = &mut out[top * row_bytes..][..rows.len() * row_bytes];
    let mut y = rows.start;
    while y < rows.end {
        let end = ((y / grid.tile_height + 1) * grid.tile_height).min(rows.end);
        let (band, behind) = rest.split_at_mut((end - y) * row_bytes);
        bands.push((y, band));
        rest = behind;
        y = end;
    }
    let one = |row: usize, column: usize, y: usize, band: &mut [u8]| -> Result<(), Fault> {
        match tile(row * grid.across + column)? {
            Some(tile) => copy(band, row_bytes, tile.as_ref(), grid, &columns, left, column, y),
            None => Ok(()),
        }
    };
    if bands.len() == 1 && tile_columns.len() == 1 {
        let (y, band) = bands.remove(0);
        return one(y / grid.tile_height, tile_columns.start, y, band);
    }
    bands.into_par_iter().try_for_each(|(y, band)| {
        let row = y / grid.tile_height;
        if tile_columns.len() == 1 {
            return one(row, tile_columns.start, y, band);
        }
        let tiles: Vec<(usize, Option<T>)> = tile_columns
            .clone()
            .into_par_iter()
            .map(|column| Ok((column, tile(row * grid.across + column)?)))
            .collect::<Result<_, Fault>>()?;
        for (column, tile) in tiles {
            if let Some(tile) = tile {
                copy(band, row_bytes, tile.as_ref(), grid, &columns, left, column, y)?;
            }
        }
        Ok(())
    })
}

/// Copies what a tile and a band have in common. The band's first row is row `y` of the image.
#[allow(clippy::too_many_arguments)]
fn copy(
    band: &mut [u8],
    row_bytes: usize,
    tile: &Tile,
    grid: Grid,
    columns: &std::ops::Range<usize>,
    left: usize,
    column: usize,
    y: usize,
) -> Result<(), Fault> {
    let x = column * grid.tile_width;
    let (from, to) = (columns.start.max(x), columns.end.min(x + grid.tile_width));
    let len = (to - from) * grid.pixel;
    let target = (left + from - columns.start) * grid.pixel;
    let source = (from - x) * grid.pixel;
    let tile_row = tile.width * grid.pixel;
    for (i, row) in band.chunks_exact_mut(row_bytes).enumerate() {
        let at = (y % grid.tile_height + i) * tile_row + source;
        let pixels =
            tile.bytes.get(at..at + len).ok_or_else(|| Fault::damaged("a tile with fewer rows than it should have"))?;
        row[target..target + len].copy_from_slice(pixels);
    }
    Ok(())
}
