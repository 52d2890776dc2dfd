//! Masks of shapes: a pixel is set if its centre is inside.

use super::{Annotations, Pick, Point, Role, Shape};
use crate::error::SlideError;
use crate::slide::Slide;

/// A rectangle of pixels over a slide.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// The left and upper edge in pixels of level 0.
    pub corner: Point,
    /// Width and height of one pixel in pixels of level 0.
    pub scale: [f64; 2],
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

impl Area {
    /// The region that [`Slide::read_region`] reads: `x`, `y`, `width` and `height` in pixels of
    /// the level.
    ///
    /// # Errors
    /// There is no such level.
    pub fn of(slide: &Slide, level: usize, x: i64, y: i64, width: usize, height: usize) -> Result<Self, SlideError> {
        let size = slide.levels().get(level).map(|level| [level.width, level.height]);
        let size = size.ok_or_else(|| slide.request(format!("level {level} of {}", slide.levels().len())))?;
        let (full_width, full_height) = slide.dimensions();
        let scale = [full_width as f64 / size[0] as f64, full_height as f64 / size[1] as f64];
        Ok(Area { corner: [x as f64 * scale[0], y as f64 * scale[1]], scale, width, height })
    }

    /// A whole slide of `width` x `height` pixels at level 0, in fewer pixels.
    pub fn whole((width, height): (usize, usize), pixels: (usize, usize)) -> Self {
        let scale = [width as f64 / pixels.0 as f64, height as f64 / pixels.1 as f64];
        Area { corner: [0.0; 2], scale, width: pixels.0, height: pixels.1 }
    }

    /// The centre of a pixel along an axis.
    fn centre(&self, axis: usize, at: usize) -> f64 {
        self.corner[axis] + (at as f64 + 0.5) * self.scale[axis]
    }
}

impl Annotations {
    /// The mask of an area, row by row: 1 where a pixel's centre lies in a drawn shape and in none
    /// that is cut out.
    pub fn mask(&self, area: &Area, pick: &Pick) -> Vec<u8> {
        let mut mask = vec![0; area.width * area.height];
        for (role, value) in [(Role::Drawn, 1), (Role::CutOut, 0)] {
            for shape in self.shapes.iter().filter(|shape| pick.role(&shape.class) == role) {
                shape.paint(area, value, &mut mask);
            }
        }
        mask
    }
}

impl Shape {
    /// Sets the pixels of an area whose centres are inside.
    pub fn paint(&self, area: &Area, value: u8, mask: &mut [u8]) {
        // The first pixel along an axis whose centre is at or after a position.
        let first = |axis: usize, at: f64, end: usize| {
            let guess = ((at - area.corner[axis]) / area.scale[axis] - 0.5).ceil().clamp(0.0, end as f64) as usize;
            // The division was rounded; the centres decide, as in `contains`.
            let down = guess.saturating_sub(1);
            (down..=(guess + 1).min(end)).find(|i| *i == end || area.centre(axis, *i) >= at).unwrap_or(end)
        };
        let [_, top, _, bottom] = self.bounds();
        let edges: Vec<[Point; 2]> = self.edges().collect();
        let mut crossings = Vec::new();
        for row in first(1, top, area.height)..first(1, bottom, area.height) {
            let y = area.centre(1, row);
            crossings.clear();
            crossings.extend(edges.iter().filter_map(|[a, b]| crossing(*a, *b, y)));
            crossings.sort_unstable_by(f64::total_cmp);
            for pair in crossings.chunks_exact(2) {
                let (from, to) = (first(0, pair[0], area.width), first(0, pair[1], area.width));
                if from < to {
                    mask[row * area.width + from..row * area.width + to].fill(value);
                }
            }
        }
    }
}

/// The crossing of an edge with a row. An edge includes its upper end and not its lower one, so
/// that a row through a corner crosses a ring an even number of times.
pub(super) fn crossing(a: Point, b: Point, y: f64) -> Option<f64> {
    // From the upper to the lower end: both directions of an edge yield the same number.
    let (a, b) = if a[1] <= b[1] { (a, b) } else { (b, a) };
    (a[1] <= y && y < b[1]).then(|| a[0] + (y - a[1]) / (b[1] - a[1]) * (b[0] - a[0]))
}
