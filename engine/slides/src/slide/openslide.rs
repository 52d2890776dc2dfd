//! Slides of other vendors, through the OpenSlide library.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use openslide_rs::{Address, OpenSlide, Region, Size};

use super::pixels::{Pixels, background_pixel, canvas};
use super::{Background, Counts, Level, Opened, SlideOptions};
use crate::error::Fault;
use crate::limits::Limits;
use crate::raster::{Color, Raster, SampleType, Samples};
use crate::region::{Rect, paint};
use crate::tiff::Format;

const FORMAT: Format = Format { sample: SampleType::U8, channels: 3, color: Color::Rgb };

struct Foreign {
    slide: OpenSlide,
    levels: Vec<Level>,
    background: Background,
    limits: Limits,
    counts: Arc<Counts>,
}

/// Whether OpenSlide can read a file.
pub(super) fn knows(path: &Path) -> bool {
    OpenSlide::detect_vendor(path).is_ok()
}

/// Opens a slide with OpenSlide. Its own cache holds the tiles; a region counts as one tile.
pub(super) fn open(path: &Path, options: &SlideOptions, counts: Arc<Counts>) -> Result<Opened, Fault> {
    let slide = OpenSlide::new(path).map_err(fault)?;
    let names = slide.property_names().map_err(fault)?;
    let properties: BTreeMap<String, String> =
        names.into_iter().filter_map(|name| Some((name.clone(), slide.property_value(&name).ok()?))).collect();
    let number = |name: &str| properties.get(name)?.parse::<f64>().ok().filter(|v| v.is_finite() && *v > 0.0);
    let size = |name: String| properties.get(&name).and_then(|v| v.parse().ok());
    let sizes = slide.all_level_dimensions().iter().zip(slide.all_level_downsamples());
    let levels: Vec<Level> = sizes
        .enumerate()
        .map(|(i, (size_of, downsample))| Level {
            width: size_of.w as usize,
            height: size_of.h as usize,
            downsample: *downsample,
            tile_width: size(format!("openslide.level[{i}].tile-width")).unwrap_or(size_of.w as usize),
            tile_height: size(format!("openslide.level[{i}].tile-height")).unwrap_or(size_of.h as usize),
        })
        .collect();
    if levels.is_empty() {
        return Err(Fault::damaged("OpenSlide finds no level"));
    }
    let mpp = number("openslide.mpp-x").zip(number("openslide.mpp-y"));
    Ok(Opened {
        levels: levels.clone(),
        mpp: mpp.map(|(x, y)| [x, y]),
        power: number("openslide.objective-power"),
        vendor: properties.get("openslide.vendor").cloned().unwrap_or_default(),
        associated: slide.associated_image_names().map_err(fault)?,
        properties,
        pixels: Box::new(Foreign { slide, levels, background: options.background, limits: options.limits, counts }),
    })
}

fn fault(error: openslide_rs::errors::OpenSlideError) -> Fault {
    Fault::damaged(format!("OpenSlide: {error}"))
}

impl Pixels for Foreign {
    fn compression(&self, _: usize) -> Option<String> {
        None
    }

    fn region(&self, level: usize, rect: Rect) -> Result<Raster, Fault> {
        let mut out = canvas(rect, FORMAT, &self.limits)?;
        paint(out.samples.as_bytes_mut(), &background_pixel(FORMAT, self.background));
        let size = self.levels[level];
        // OpenSlide does not accept positions outside.
        let clip = |start: i64, len: usize, end: usize| {
            let cut = |at: i64| at.clamp(0, end as i64);
            (cut(start), cut(start.saturating_add(len as i64)))
        };
        let (left, right) = clip(rect.x, rect.width, size.width);
        let (top, bottom) = clip(rect.y, rect.height, size.height);
        if left >= right || top >= bottom {
            return Ok(out);
        }
        let (width, height) = ((right - left) as usize, (bottom - top) as usize);
        let at = |place: i64| (place as f64 * size.downsample).round() as u32;
        let region = Region {
            address: Address { x: at(left), y: at(top) },
            level: level as u32,
            size: Size { w: width as u32, h: height as u32 },
        };
        self.counts.wanted.fetch_add(1, Ordering::Relaxed);
        self.counts.decoded.fetch_add(1, Ordering::Relaxed);
        let argb = self.slide.read_region(&region).map_err(fault)?;
        let Samples::U8(pixels) = &mut out.samples else { return Ok(out) };
        let (left, top) = ((left - rect.x) as usize, (top - rect.y) as usize);
        for (row, line) in argb.chunks_exact(width * 4).enumerate() {
            blend(line, &mut pixels[((top + row) * rect.width + left) * 3..][..width * 3]);
        }
        Ok(out)
    }

    fn associated(&self, name: &str) -> Result<Raster, Fault> {
        let (size, argb) = self.slide.read_associated_buffer(name).map_err(fault)?;
        let rect = Rect { x: 0, y: 0, width: size.w as usize, height: size.h as usize };
        let mut out = canvas(rect, FORMAT, &self.limits)?;
        paint(out.samples.as_bytes_mut(), &background_pixel(FORMAT, self.background));
        if let Samples::U8(pixels) = &mut out.samples {
            blend(&argb, pixels);
        }
        Ok(out)
    }
}

/// Blends pixels of premultiplied ARGB (one number in the machine's byte order each) over a
/// background.
fn blend(argb: &[u8], background: &mut [u8]) {
    for (out, pixel) in background.chunks_exact_mut(3).zip(argb.as_chunks::<4>().0) {
        let pixel = u32::from_ne_bytes(*pixel);
        let through = 255 - (pixel >> 24);
        for (out, shift) in out.iter_mut().zip([16, 8, 0]) {
            let over = (u32::from(*out) * through + 127) / 255;
            *out = ((pixel >> shift & 255) + over).min(255) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Slide;

    /// OpenSlide's decoder is libjpeg: its colours differ from ours by the tolerance in the guide.
    #[test]
    #[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
    fn openslide_sees_what_we_see() {
        let data = std::env::var_os("HEARTH_REAL_DATA").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
            std::path::PathBuf::from,
        );
        for name in ["cmu-1-small-region.svs", "derived/cmu_pyramid_jpeg.tif", "derived/cmu_crop_pyramid_deflate.tif"] {
            let path = data.join("wsi").join(name);
            let options = SlideOptions::default();
            assert!(knows(&path), "{name}");
            let foreign = open(&path, &options, Arc::default()).unwrap_or_else(|fault| panic!("{}", fault.of(&path)));
            let own = Slide::open(&path).expect("a slide");
            assert_eq!(foreign.levels.len(), own.levels().len(), "{name}");
            for (at, level) in own.levels().iter().enumerate() {
                let (x, y) = (level.width as i64 / 3, level.height as i64 / 4);
                let rect = Rect { x, y, width: 200, height: 150 };
                let theirs = foreign.pixels.region(at, rect).unwrap_or_else(|fault| panic!("{}", fault.of(&path)));
                let ours = own.read_region(at, x, y, 200, 150).expect("a region");
                let far = theirs.as_u8().into_iter().flatten().zip(ours.as_u8().into_iter().flatten());
                let far: Vec<u32> = far.map(|(a, b)| u32::from(a.abs_diff(*b))).collect();
                let mean = f64::from(far.iter().sum::<u32>()) / far.len() as f64;
                // OpenSlide places a level with a fractional downsample between pixels.
                let whole = level.downsample.fract() == 0.0;
                assert!(!whole || mean < 0.5, "{name}, level {at}: {mean} apart");
            }
        }
    }
}
