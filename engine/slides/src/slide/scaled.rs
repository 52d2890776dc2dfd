//! Regions at any resolution: read from the next finer level and reduced.

use super::reduce::{Reduction, Stretch};
use super::{Resolution, Slide};
use crate::error::{Fault, SlideError};
use crate::limits::checked_bytes;
use crate::raster::{Color, Raster, Samples};

/// A level this close (relatively) to the requested resolution is read unchanged.
const SAME: f64 = 0.01;

/// The source pixels of one block along an axis; limits the memory of a large reduction.
const BLOCK: f64 = 4096.0;

impl Slide {
    /// Reads `size` (width, height) pixels at a resolution, from the corner `location` (x, y) in
    /// pixels of level 0.
    ///
    /// If a level has that resolution (up to 1 %), it is read unchanged. Otherwise the next finer
    /// level is read and reduced with a triangle filter as wide as the reduction (Pillow's
    /// `BILINEAR`); beyond level 0 it is magnified. Neighbouring regions match at their borders.
    ///
    /// # Errors
    /// As [`read_region`](Self::read_region), and if the slide does not state its resolution.
    pub fn read_at(
        &self,
        location: (f64, f64),
        resolution: Resolution,
        size: (usize, usize),
    ) -> Result<Raster, SlideError> {
        self.read_scaled(location, self.scale(resolution)?, size)
    }

    /// The whole slide in at most `side` pixels along its longer side. Never magnifies.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub fn thumbnail(&self, side: usize) -> Result<Raster, SlideError> {
        let (width, height) = self.dimensions();
        let longer = width.max(height);
        if side == 0 {
            return Err(self.request("a thumbnail of 0 pixels".into()));
        }
        let part = |length: usize| ((length as f64 * side as f64 / longer as f64).round() as usize).max(1);
        let (w, h) = if longer <= side { (width, height) } else { (part(width), part(height)) };
        self.read_scaled((0.0, 0.0), [width as f64 / w as f64, height as f64 / h as f64], (w, h))
    }

    /// As `read_at`; `scale` is the number of level-0 pixels per pixel along x and y.
    pub(crate) fn read_scaled(
        &self,
        location: (f64, f64),
        scale: [f64; 2],
        (width, height): (usize, usize),
    ) -> Result<Raster, SlideError> {
        let is_same = |downsample: f64| scale.iter().all(|s| (s / downsample - 1.0).abs() < SAME);
        if let Some(level) = self.levels().iter().position(|level| is_same(level.downsample)) {
            let downsample = self.levels()[level].downsample;
            let (x, y) = ((location.0 / downsample).round() as i64, (location.1 / downsample).round() as i64);
            return self.read_region(level, x, y, width, height);
        }
        let level = self.best_level_for_downsample(scale[0].min(scale[1]));
        let source = self.levels()[level];
        // Sizes of levels are rounded, so each axis has its own factor.
        let (full_width, full_height) = self.dimensions();
        let factor = [source.width as f64 / full_width as f64, source.height as f64 / full_height as f64];
        let x = Axis::new(location.0 * factor[0], scale[0] * factor[0], source.width);
        let y = Axis::new(location.1 * factor[1], scale[1] * factor[1], source.height);

        let fault = |fault: Fault| fault.of(self.path());
        let nothing = self.read_region(level, 0, 0, 0, 0)?;
        let kind = nothing.samples.kind();
        let sizes = [width, height, nothing.channels, kind.bytes()].map(|n| n as u64);
        checked_bytes("the region", &sizes, self.inner.limits.image_bytes).map_err(fault)?;
        let mut out = Samples::zeros(kind, width * height * nothing.channels);
        // Only opacity weights other channels; the black of CMYK and unspecified channels do not.
        let opacity = matches!(nothing.color, Color::GrayAlpha | Color::Rgba);
        for top in (0..height).step_by(y.block()) {
            for left in (0..width).step_by(x.block()) {
                let (w, h) = (x.block().min(width - left), y.block().min(height - top));
                let ((from_x, columns), (from_y, rows)) = (x.source(left, w), y.source(top, h));
                let read = self.read_region(level, from_x, from_y, columns.len, rows.len)?;
                let reduction = Reduction { columns, rows, channels: nothing.channels, opacity };
                let first = (top * width + left) * nothing.channels;
                reduction.run(&read.samples, &mut out, first, width * nothing.channels);
            }
        }
        Ok(Raster { width, height, samples: out, ..nothing })
    }
}

/// One axis of a reduction, in pixels of the source level.
struct Axis {
    /// The start of the first pixel.
    origin: f64,
    /// Source pixels per pixel.
    step: f64,
    /// Number of source pixels.
    len: usize,
}

impl Axis {
    fn new(origin: f64, step: f64, len: usize) -> Self {
        Axis { origin, step, len }
    }

    /// The number of pixels that are computed at once.
    fn block(&self) -> usize {
        ((BLOCK / self.step) as usize).max(1)
    }

    /// The first source pixel for a run of pixels, and the resampling from there.
    fn source(&self, from: usize, count: usize) -> (i64, Stretch) {
        let (start, end) = (self.origin + from as f64 * self.step, self.origin + (from + count) as f64 * self.step);
        // The filter extends one pixel to both sides: of the result, or of the source if those are
        // larger.
        let reach = self.step.max(1.0) + 1.0;
        let (mut first, mut last) = ((start - reach).floor() as i64, (end + reach).ceil() as i64);
        // The filter ends at the slide's edge even where the region does not: otherwise the
        // background would bleed in.
        if start >= 0.0 {
            first = first.max(0);
        }
        if end <= self.len as f64 + 1e-6 {
            last = last.min(self.len as i64);
        }
        let len = (last - first).max(1) as usize;
        let start = start - first as f64;
        (first, Stretch { start, span: (count as f64 * self.step).min(len as f64 - start), len, count })
    }
}
