//! The pixels of a slide: cached tiles of a TIFF.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::{self, LevelPage};
use super::{Background, Counts, Level, Opened, SlideOptions};
use crate::cache::TileCache;
use crate::error::Fault;
use crate::limits::{Limits, checked_bytes};
use crate::raster::{Color, Raster, SampleType, Samples};
use crate::region::{Grid, Rect, fill};
use crate::source::Source;
use crate::tiff::{self, Format, Page, Tile};

/// Reads regions of existing levels and named images.
pub(super) trait Pixels: Send + Sync {
    fn region(&self, level: usize, rect: Rect) -> Result<Raster, Fault>;
    fn associated(&self, name: &str) -> Result<Raster, Fault>;
    /// The compression of a level, if it is known.
    fn compression(&self, level: usize) -> Option<String>;
}

pub(super) struct TiffPixels {
    source: Source,
    limits: Limits,
    background: Background,
    tiles: Tiles,
    pages: Vec<Page>,
    levels: Vec<LevelPage>,
    associated: BTreeMap<String, usize>,
}

/// The decoded tiles of a slide in the cache.
pub(super) struct Tiles {
    cache: TileCache,
    /// The key of the slide.
    id: u64,
    counts: Arc<Counts>,
}

impl Tiles {
    pub fn new(options: &SlideOptions, counts: Arc<Counts>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let cache = options.cache.clone().unwrap_or_else(TileCache::shared);
        Tiles { cache, id: NEXT_ID.fetch_add(1, Ordering::Relaxed), counts }
    }

    /// A tile of an image, from the cache or by `decode`. Indices of images and tiles must fit in
    /// 32 bits.
    pub fn get(
        &self,
        image: usize,
        index: usize,
        decode: impl FnOnce() -> Result<Option<Tile>, Fault>,
    ) -> Result<Option<Arc<Tile>>, Fault> {
        self.counts.wanted.fetch_add(1, Ordering::Relaxed);
        self.cache.get((self.id, image as u32, index as u32), || {
            self.counts.decoded.fetch_add(1, Ordering::Relaxed);
            decode()
        })
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        self.cache.forget(self.id);
    }
}

impl TiffPixels {
    pub fn open(source: Source, options: &SlideOptions, counts: Arc<Counts>) -> Result<Opened, Fault> {
        let pages = tiff::pages(&source, &options.limits)?;
        let found = layout::find(&pages)?;
        let (width, height) = (found.levels[0].width as f64, found.levels[0].height as f64);
        let level = |level: &LevelPage| Level {
            width: level.width,
            height: level.height,
            downsample: (width / level.width as f64 + height / level.height as f64) / 2.0,
            tile_width: pages[level.page].segments.width,
            tile_height: pages[level.page].segments.height,
        };
        Ok(Opened {
            levels: found.levels.iter().map(level).collect(),
            mpp: found.mpp,
            power: found.power,
            vendor: found.vendor.to_owned(),
            properties: found.properties,
            associated: found.associated.keys().cloned().collect(),
            pixels: Box::new(TiffPixels {
                source,
                limits: options.limits,
                background: options.background,
                tiles: Tiles::new(options, counts),
                pages,
                levels: found.levels,
                associated: found.associated,
            }),
        })
    }
}

impl Pixels for TiffPixels {
    fn compression(&self, level: usize) -> Option<String> {
        Some(self.pages[self.levels.get(level)?.page].compression.name())
    }

    fn region(&self, level: usize, rect: Rect) -> Result<Raster, Fault> {
        let level = self.levels[level];
        let page = &self.pages[level.page];
        let format = page.format().map_err(|fault| fault.within(|| format!("page {}", page.number)))?;
        // The padding of a level is not part of it.
        let grid = Grid { width: level.width, height: level.height, ..page.grid(format) };
        // There are at most 65,536 pages by default, and fewer tiles than bytes of tags.
        let tile = |index: usize| self.tiles.get(page.number, index, || page.tile(&self.source, &self.limits, index));
        assemble(grid, format, rect, self.background, &self.limits, tile)
    }

    fn associated(&self, name: &str) -> Result<Raster, Fault> {
        let page = &self.pages[self.associated[name]];
        tiff::read_page(&self.source, &self.limits, page, |format| background_pixel(format, self.background))
    }
}

/// A region of an image from its tiles.
pub(super) fn assemble(
    grid: Grid,
    format: Format,
    rect: Rect,
    background: Background,
    limits: &Limits,
    tile: impl Fn(usize) -> Result<Option<Arc<Tile>>, Fault> + Sync,
) -> Result<Raster, Fault> {
    let mut one = None;
    if let Some(index) = grid.whole_tile(rect).filter(|_| format.sample == SampleType::U8) {
        one = tile(index)?;
        // A tile that the cache did not keep has no other owner: its pixels are moved to the
        // region.
        match one.map(Arc::try_unwrap) {
            Some(Ok(Tile { width, bytes })) if width == rect.width && bytes.len() == grid.tile_bytes() => {
                let Format { channels, color, .. } = format;
                let samples = Samples::U8(bytes);
                return Ok(Raster { width, height: rect.height, channels, color, samples });
            }
            Some(Ok(tile)) => one = Some(Arc::new(tile)),
            Some(Err(kept)) => one = Some(kept),
            None => one = None,
        }
    }
    let mut raster = canvas(rect, format, limits)?;
    let background = background_pixel(format, background);
    fill(raster.samples.as_bytes_mut(), grid, rect, &background, |index| match &one {
        Some(one) => Ok(Some(Arc::clone(one))),
        None => tile(index),
    })?;
    Ok(raster)
}

/// A raster with all samples 0.
pub(super) fn canvas(rect: Rect, format: Format, limits: &Limits) -> Result<Raster, Fault> {
    let Format { sample, channels, color } = format;
    let sizes = [rect.width, rect.height, format.pixel()].map(|n| n as u64);
    checked_bytes("the region", &sizes, limits.image_bytes)?;
    let samples = Samples::zeros(sample, rect.width * rect.height * channels);
    Ok(Raster { width: rect.width, height: rect.height, channels, color, samples })
}

/// The bytes of a pixel of background.
pub(super) fn background_pixel(format: Format, background: Background) -> Vec<u8> {
    let rgb = match background {
        Background::White => [u8::MAX; 3],
        Background::Black => [0; 3],
        Background::Rgb(rgb) => rgb,
    };
    let gray = (rgb.iter().map(|v| u16::from(*v)).sum::<u16>() / 3) as u8;
    let channel = |c: usize| match (format.color, c) {
        (Color::Rgb | Color::Rgba, 0..3) => rgb[c],
        (Color::Rgba, 3) | (Color::GrayAlpha, 1) => u8::MAX,
        // White is the absence of ink.
        (Color::Cmyk, _) => 0,
        _ => gray,
    };
    match format.sample {
        SampleType::U8 => (0..format.channels).map(channel).collect(),
        // Repeating the byte scales to 16 bits.
        SampleType::U16 => (0..format.channels).flat_map(|c| [channel(c); 2]).collect(),
        _ => vec![0; format.pixel()],
    }
}
