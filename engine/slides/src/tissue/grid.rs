//! Positions of patches: on a grid over the tissue, around each pixel of a mask, or in a sliding
//! window.

use super::TissueMask;
use crate::error::SlideError;
use crate::slide::{Resolution, Slide};

/// The position of a patch: its top left corner in pixels of level 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patch {
    /// Column at level 0.
    pub x: i64,
    /// Row at level 0.
    pub y: i64,
    /// The fraction of tissue, 0 to 1; 1 without a mask.
    pub tissue: f64,
}

/// A regular grid of patches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GridOptions {
    /// Width and height of a patch, in pixels at `resolution`.
    pub size: (usize, usize),
    /// The resolution of patches. Default level 0.
    pub resolution: Resolution,
    /// The distance of patches along x and y, in pixels at `resolution`; by default `size`, so that
    /// patches touch.
    pub stride: Option<(usize, usize)>,
    /// The smallest fraction of tissue; patches with less are skipped. Default 0.5.
    pub min_tissue: f64,
    /// Whether patches may extend beyond the right and the lower edge. Default false.
    pub beyond_edges: bool,
}

impl GridOptions {
    /// Adjacent patches of a size at level 0, with at least half tissue each.
    pub fn new(width: usize, height: usize) -> Self {
        GridOptions {
            size: (width, height),
            resolution: Resolution::Level(0),
            stride: None,
            min_tissue: 0.5,
            beyond_edges: false,
        }
    }
}

/// A sliding window, as in MONAI's `SlidingPatchWSIDataset`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlidingOptions {
    /// Width and height of a patch, in pixels of `level`.
    pub size: (usize, usize),
    /// The level that patches are read from.
    pub level: usize,
    /// The overlap of neighbours along x and y as a fraction of their size, 0 to less than 1.
    pub overlap: (f64, f64),
    /// The first patch's corner (x, y) in pixels of level 0; it may lie outside.
    pub offset: (i64, i64),
}

impl Slide {
    /// Patches on a regular grid from the corner of the slide, row by row, that have enough tissue.
    ///
    /// # Errors
    /// If a size or stride is 0, or the slide does not have the resolution.
    pub fn tissue_grid(&self, mask: &TissueMask, options: &GridOptions) -> Result<Vec<Patch>, SlideError> {
        let scale = self.scale(options.resolution)?;
        let (width, height) = options.size;
        let (step_x, step_y) = options.stride.unwrap_or(options.size);
        if [width, height, step_x, step_y].contains(&0) {
            return Err(
                self.request(format!("a grid of patches of {width} x {height} every {step_x} x {step_y} pixels"))
            );
        }
        let (patch_width, patch_height) = (width as f64 * scale[0], height as f64 * scale[1]);
        let (full_width, full_height) = self.dimensions();
        let starts = |length: usize, patch: f64, step: f64| {
            // The rounded position of the last patch may reach half a pixel outside.
            let last = if options.beyond_edges { length as f64 - 1.0 } else { length as f64 - patch + 0.5 };
            (0..).map(move |i| f64::from(i) * step).take_while(move |at| *at <= last)
        };
        let sums = Sums::of(mask);
        let mut patches = Vec::new();
        for y in starts(full_height, patch_height, step_y as f64 * scale[1]) {
            for x in starts(full_width, patch_width, step_x as f64 * scale[0]) {
                let (x, y) = (x.round(), y.round());
                let tissue = sums.fraction(mask, x, y, patch_width, patch_height);
                if tissue >= options.min_tissue {
                    patches.push(Patch { x: x as i64, y: y as i64, tissue });
                }
            }
        }
        Ok(patches)
    }

    /// All patches of a sliding window, row by row, that lie completely inside the slide (or start
    /// before its corner, with an offset).
    ///
    /// # Errors
    /// If there is no such level, a size is 0, or an overlap leaves no step.
    pub fn sliding_grid(&self, options: &SlidingOptions) -> Result<Vec<Patch>, SlideError> {
        let [downsample, _] = self.scale(Resolution::Level(options.level))?;
        let (width, height) = self.dimensions();
        let axis = |length: usize, size: usize, overlap: f64, offset: i64| {
            // A patch is never larger than the slide.
            let patch = (size as f64 * downsample).min(length as f64);
            let step = (patch * (1.0 - overlap)).round_ties_even() as i64;
            let end = length as i64 - patch.round_ties_even() as i64 + 1;
            (size > 0 && step > 0 && overlap >= 0.0).then(|| (offset..end).step_by(step as usize))
        };
        let rows = axis(height, options.size.1, options.overlap.1, options.offset.1);
        let columns = axis(width, options.size.0, options.overlap.0, options.offset.0);
        let (Some(rows), Some(columns)) = (rows, columns) else {
            return Err(self.request(format!("a window without size or step: {options:?}")));
        };
        Ok(rows.flat_map(|y| columns.clone().map(move |x| Patch { x, y, tissue: 1.0 })).collect())
    }
}

impl TissueMask {
    /// A patch around each pixel of tissue, row by row, placed as in MONAI's
    /// `MaskedPatchWSIDataset`, with the pixel (column, row) it belongs to. `size` is in pixels of
    /// a level with `downsample`. Corners may lie outside the slide.
    pub fn patches(&self, size: (usize, usize), downsample: f64) -> Vec<((usize, usize), Patch)> {
        let corner = |at: usize, size: usize| {
            let half = (size as f64 * downsample / 2.0).floor();
            ((at as f64 + 0.5) * self.downsample - half).round_ties_even() as i64
        };
        let tissue = self.pixels.iter().enumerate().filter(|(_, p)| **p).map(|(i, _)| (i % self.width, i / self.width));
        tissue.map(|(x, y)| ((x, y), Patch { x: corner(x, size.0), y: corner(y, size.1), tissue: 1.0 })).collect()
    }
}

/// Prefix sums of tissue over rectangles from the corner: the sum over any rectangle takes four
/// look-ups.
struct Sums {
    width: usize,
    sums: Vec<u32>,
}

impl Sums {
    fn of(mask: &TissueMask) -> Self {
        let width = mask.width + 1;
        let mut sums = vec![0; width * (mask.height + 1)];
        for y in 0..mask.height {
            let mut row = 0;
            for x in 0..mask.width {
                row += u32::from(mask.get(x, y));
                sums[(y + 1) * width + x + 1] = sums[y * width + x + 1] + row;
            }
        }
        Sums { width, sums }
    }

    /// The sum up to a position between pixels: linear within a pixel, as if its tissue were evenly
    /// spread.
    fn up_to(&self, x: f64, y: f64) -> f64 {
        let (columns, rows) = (self.width - 1, self.sums.len() / self.width - 1);
        let (x, y) = (x.clamp(0.0, columns as f64), y.clamp(0.0, rows as f64));
        let (left, top) = ((x as usize).min(columns.saturating_sub(1)), (y as usize).min(rows.saturating_sub(1)));
        let (a, b) = (x - left as f64, y - top as f64);
        let at = |x: usize, y: usize| f64::from(self.sums[y * self.width + x]);
        (at(left, top) * (1.0 - a) + at(left + 1, top) * a) * (1.0 - b)
            + (at(left, top + 1) * (1.0 - a) + at(left + 1, top + 1) * a) * b
    }

    /// The fraction of tissue in a rectangle of level 0. There is no tissue outside the slide.
    fn fraction(&self, mask: &TissueMask, x: f64, y: f64, width: f64, height: f64) -> f64 {
        let (left, right) = (x / mask.scale[0], (x + width) / mask.scale[0]);
        let (top, bottom) = (y / mask.scale[1], (y + height) / mask.scale[1]);
        let sum = self.up_to(right, bottom) - self.up_to(left, bottom) - self.up_to(right, top) + self.up_to(left, top);
        (sum / ((right - left) * (bottom - top))).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(rows: &[&str], scale: f64) -> TissueMask {
        TissueMask {
            width: rows[0].len(),
            height: rows.len(),
            scale: [scale, scale],
            downsample: scale,
            pixels: rows.iter().flat_map(|row| row.chars().map(|c| c == '#')).collect(),
            threshold: 0.1,
        }
    }

    #[test]
    fn fractions_are_areas() {
        let mask = mask(&["##..", "##..", "...."], 10.0);
        let sums = Sums::of(&mask);
        let fraction = |x, y, w, h| sums.fraction(&mask, x, y, w, h);
        assert_eq!(fraction(0.0, 0.0, 20.0, 20.0), 1.0);
        assert_eq!(fraction(0.0, 0.0, 40.0, 30.0), 4.0 / 12.0);
        assert_eq!(fraction(10.0, 10.0, 20.0, 20.0), 0.25);
        // Within one pixel of the mask, and extending outside the slide.
        assert!((fraction(18.0, 2.0, 4.0, 4.0) - 0.5).abs() < 1e-12);
        assert!((fraction(-10.0, 0.0, 20.0, 20.0) - 0.5).abs() < 1e-12);
    }

    /// Recorded from MONAI 1.6.1: `MaskedPatchWSIDataset._evaluate_patch_locations` with ratio 64.
    #[test]
    fn patches_around_pixels_are_monais() {
        let mask = mask(&[".#", "#."], 64.0);
        let patches = mask.patches((224, 224), 1.0);
        let places: Vec<_> = patches.iter().map(|(pixel, p)| (*pixel, p.x, p.y)).collect();
        assert_eq!(places, [((1, 0), -16, -80), ((0, 1), -80, -16)]);
        let odd = mask.patches((5, 5), 1.0);
        assert_eq!((odd[0].1.x, odd[0].1.y), (94, 30));
    }
}
