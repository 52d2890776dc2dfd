//! Detection of tissue on a slide.

mod grid;
mod otsu;
mod pieces;

pub use grid::{GridOptions, Patch, SlidingOptions};

use crate::error::{Fault, SlideError};
use crate::slide::Slide;

/// The criterion that separates tissue from glass.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum TissueRule {
    /// Saturation (HSV) above its Otsu threshold: glass is gray, stain is not.
    #[default]
    Saturation,
    /// Saturation above a given threshold, 0 to 1.
    SaturationAbove(f64),
    /// MONAI's `ForegroundMask(hsv_threshold={"S": "otsu"})`, which its `MaskedPatchWSIDataset`
    /// uses: any of R, G, B at most its Otsu threshold, and saturation above its own.
    Foreground,
}

/// Options of tissue detection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TissueOptions {
    /// The level to analyse; by default the whole slide reduced to `side`.
    pub level: Option<usize>,
    /// Pixels of the mask along its longer side, if no level is given. Default 2048.
    pub side: usize,
    /// The criterion.
    pub rule: TissueRule,
    /// The smallest number of mask pixels of a piece of tissue; smaller pieces are dropped
    /// (diagonal neighbours are connected). Default 0.
    pub min_area: usize,
    /// Holes with at most this number of mask pixels are filled; background that touches the border
    /// is not a hole. Default 0.
    pub max_hole: usize,
}

impl Default for TissueOptions {
    fn default() -> Self {
        TissueOptions { level: None, side: 2048, rule: TissueRule::default(), min_area: 0, max_hole: 0 }
    }
}

/// A mask of a slide's tissue, at a reduced resolution.
#[derive(Clone, Debug, PartialEq)]
pub struct TissueMask {
    /// The number of pixels in a row.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
    /// Width and height of one pixel in pixels of level 0.
    pub scale: [f64; 2],
    /// The mean of both: the downsample of the level that the mask was computed from.
    pub downsample: f64,
    /// Whether each pixel is tissue, row by row.
    pub pixels: Vec<bool>,
    /// The threshold of saturation, 0 to 1.
    pub threshold: f64,
}

impl Slide {
    /// Finds the tissue of a bright-field slide.
    ///
    /// # Errors
    /// If there is no such level, the slide does not have u8 colours, or a tile is damaged.
    pub fn tissue_mask(&self, options: &TissueOptions) -> Result<TissueMask, SlideError> {
        let image = match options.level {
            Some(level) => {
                let (width, height) = self.levels().get(level).map_or((0, 0), |level| (level.width, level.height));
                self.read_region(level, 0, 0, width, height)?
            }
            None => self.thumbnail(options.side)?,
        };
        let rgb = image.as_u8().and_then(|_| image.to_rgb8()).ok_or_else(|| {
            let what =
                format!("a tissue mask of {:?} pixels of {} bits, expected 8-bit colours", image.color, image.bits());
            Fault::Unsupported(what).of(self.path())
        })?;
        let (width, height) = self.dimensions();
        let scale = [width as f64 / image.width as f64, height as f64 / image.height as f64];
        Ok(TissueMask::of_rgb(&rgb, image.width, scale, options))
    }
}

impl TissueMask {
    /// Finds the tissue in an RGB image with rows of `width` pixels.
    fn of_rgb(rgb: &[u8], width: usize, scale: [f64; 2], options: &TissueOptions) -> Self {
        let saturations: Vec<f64> = rgb.chunks_exact(3).map(saturation).collect();
        let threshold = match options.rule {
            TissueRule::SaturationAbove(threshold) => threshold,
            _ => otsu::of_values(&saturations).unwrap_or_default(),
        };
        let mut pixels: Vec<bool> = saturations.iter().map(|s| *s > threshold).collect();
        if options.rule == TissueRule::Foreground {
            // A threshold of 0 is ignored, as in MONAI.
            let dark = [0, 1, 2].map(|c| otsu::of_bytes(rgb.iter().skip(c).step_by(3).copied()).filter(|t| *t != 0.0));
            for (pixel, rgb) in pixels.iter_mut().zip(rgb.chunks_exact(3)) {
                *pixel &= threshold != 0.0 && rgb.iter().zip(dark).any(|(v, t)| t.is_some_and(|t| f64::from(*v) <= t));
            }
        }
        let height = pixels.len() / width.max(1);
        pieces::drop_small(&mut pixels, width, options.min_area);
        pieces::fill_holes(&mut pixels, width, options.max_hole);
        TissueMask { width, height, scale, downsample: (scale[0] + scale[1]) / 2.0, pixels, threshold }
    }

    /// Whether the pixel at column `x`, row `y` of the mask is tissue; false outside.
    pub fn get(&self, x: usize, y: usize) -> bool {
        x < self.width && y < self.height && self.pixels[y * self.width + x]
    }

    /// The fraction of tissue on the slide, 0 to 1.
    pub fn fraction(&self) -> f64 {
        self.pixels.iter().filter(|p| **p).count() as f64 / self.pixels.len().max(1) as f64
    }
}

/// S of HSV, rounded as in scikit-image's `rgb2hsv`.
fn saturation(rgb: &[u8]) -> f64 {
    let (low, high) = (rgb[0].min(rgb[1]).min(rgb[2]), rgb[0].max(rgb[1]).max(rgb[2]));
    if low == high {
        return 0.0;
    }
    let unit = |v: u8| f64::from(v) * (1.0 / 255.0);
    (unit(high) - unit(low)) / unit(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A white slide with a stained square of 40 x 40 that has a hole of 4 x 4, and a speck.
    fn picture() -> Vec<u8> {
        let mut rgb = vec![240; 100 * 80 * 3];
        for y in 0..80usize {
            for x in 0..100usize {
                let square = (20..60).contains(&x) && (20..60).contains(&y);
                let hole = (30..34).contains(&x) && (30..34).contains(&y);
                if square && !hole || (x, y) == (90, 70) {
                    rgb[(y * 100 + x) * 3..][..3].copy_from_slice(&[180, 60, 140]);
                }
            }
        }
        rgb
    }

    #[test]
    fn stain_is_tissue_and_glass_is_not() {
        let mask = TissueMask::of_rgb(&picture(), 100, [4.0, 4.0], &TissueOptions::default());
        assert_eq!((mask.width, mask.height), (100, 80));
        assert_eq!(mask.pixels.iter().filter(|p| **p).count(), 1600 - 16 + 1);
        assert!(mask.get(20, 20) && mask.get(90, 70) && !mask.get(31, 31) && !mask.get(0, 0) && !mask.get(500, 0));
        let options = TissueOptions { min_area: 2, max_hole: 16, ..TissueOptions::default() };
        let mask = TissueMask::of_rgb(&picture(), 100, [4.0, 4.0], &options);
        assert_eq!(mask.pixels.iter().filter(|p| **p).count(), 1600);
        assert!((mask.fraction() - 0.2).abs() < 1e-12);
        let kept = TissueOptions { max_hole: 15, ..options };
        assert!(!TissueMask::of_rgb(&picture(), 100, [4.0, 4.0], &kept).get(31, 31));
    }

    #[test]
    fn a_blank_slide_has_no_tissue() {
        for rule in [TissueRule::Saturation, TissueRule::Foreground] {
            let options = TissueOptions { rule, ..TissueOptions::default() };
            let mask = TissueMask::of_rgb(&[255; 300], 10, [1.0, 1.0], &options);
            assert_eq!(mask.fraction(), 0.0);
        }
    }
}
