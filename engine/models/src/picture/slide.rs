//! A picture of a slide with its probability map.

use hearth_pictures::colours::{BACKGROUND, FAINT, HALO, TEXT};
use hearth_pictures::{Canvas, Rgb, text};
use hearth_registry::counted;

use super::board::scale_bar;
use super::panel::Place;
use super::scale::{colour, over};

const MARGIN: usize = 16;
/// The height of the colour bar.
const BAR: usize = 14;

/// A reduced slide and its map.
pub struct SlidePicture<'a> {
    /// The title above the slide.
    pub title: &'a str,
    /// The RGB pixels, row by row.
    pub rgb: &'a [u8],
    /// The number of pixels in a row.
    pub width: usize,
    /// The number of rows and columns of the map.
    pub shape: [usize; 2],
    /// The probabilities, row by row.
    pub map: &'a [f64],
    /// The peaks of the map: probability, row and column.
    pub peaks: &'a [(f32, [usize; 2])],
    /// The rings of annotations, if there are any: x and y in pixels.
    pub truth: Option<&'a [Vec<[f64; 2]>]>,
    /// Pixels per millimetre, if the slide has this information.
    pub per_mm: Option<f64>,
}

/// The colour of annotations, which does not occur in the map's scale.
const TRUTH: Rgb = [0, 158, 115];

impl SlidePicture<'_> {
    /// Draws the slide, the map over it, and the map's scale below.
    pub fn draw(&self) -> Canvas {
        let height = self.rgb.len() / 3 / self.width.max(1);
        let head = MARGIN / 2 + text::line_height(text::TITLE) + MARGIN / 2;
        let wide = self.width.max(360);
        let below = MARGIN + BAR + text::line_height(text::SMALL);
        let mut canvas = Canvas::new(wide + 2 * MARGIN, head + height + below + MARGIN, BACKGROUND);
        canvas.text(MARGIN, MARGIN / 2, text::TITLE, TEXT, self.title);
        let [rows, columns] = self.shape;
        for (i, pixel) in self.rgb.chunks_exact(3).enumerate() {
            let (x, y) = (i % self.width, i / self.width);
            let at = (y * rows / height.max(1)).min(rows.saturating_sub(1)) * columns
                + (x * columns / self.width).min(columns.saturating_sub(1));
            let probability = self.map.get(at).copied().unwrap_or(0.0);
            let mut shown = [pixel[0], pixel[1], pixel[2]];
            // Only the slide is visible where nothing was evaluated.
            if probability > 0.0 {
                shown = over(shown, probability);
            }
            canvas.set(MARGIN + x, head + y, shown);
        }
        for (_, [row, column]) in self.peaks {
            let place = |at: usize, cells: usize, pixels: usize| {
                ((at as f64 + 0.5) * pixels as f64 / cells.max(1) as f64) as usize
            };
            let (x, y) = (MARGIN + place(*column, columns, self.width), head + place(*row, rows, height));
            for (size, ink) in [(9, [0; 3]), (7, [255; 3])] {
                ring(&mut canvas, x, y, size, ink);
            }
        }
        for ring in self.truth.unwrap_or_default() {
            outline(&mut canvas, ring, [MARGIN, head], [self.width, height]);
        }
        if let Some(per_mm) = self.per_mm {
            scale_bar(&mut canvas, Place { left: MARGIN, top: head, width: self.width, height }, per_mm);
        }
        let top = head + height + MARGIN;
        for x in 0..wide.min(320) {
            canvas.fill(MARGIN + x, top, 1, BAR, colour(x as f64 / (wide.min(320) - 1) as f64));
        }
        canvas.text(MARGIN, top + BAR, text::SMALL, FAINT, "0");
        let end = MARGIN + wide.min(320);
        canvas.text(end - text::width(text::SMALL, "1"), top + BAR, text::SMALL, FAINT, "1");
        let words = format!("probability; {}", counted(self.peaks.len(), "detection"));
        canvas.text(MARGIN + 40, top + BAR, text::SMALL, FAINT, &words);
        if self.truth.is_some() {
            let end = canvas.width() - MARGIN - text::width(text::SMALL, "annotated");
            canvas.text(end, top + BAR, text::SMALL, FAINT, "annotated");
            canvas.fill(end - 24, top + BAR + text::line_height(text::SMALL) / 2, 16, 3, TRUTH);
        }
        canvas
    }
}

/// Draws a closed ring with a rim, where it lies within the slide.
fn outline(canvas: &mut Canvas, ring: &[[f64; 2]], origin: [usize; 2], size: [usize; 2]) {
    let within = |[x, y]: [f64; 2]| {
        [x.clamp(0.0, size[0] as f64 - 1.0) + origin[0] as f64, y.clamp(0.0, size[1] as f64 - 1.0) + origin[1] as f64]
    };
    for (ink, thick) in [(HALO, 1.0), (TRUTH, 0.0)] {
        for (from, to) in ring.iter().zip(ring.iter().cycle().skip(1)) {
            let ([x0, y0], [x1, y1]) = (within(*from), within(*to));
            for (dx, dy) in [(-thick, -thick), (thick, thick)] {
                canvas.line((x0 + dx, y0 + dy), (x1 + dx, y1 + dy), ink);
            }
        }
    }
}

/// Draws the outline of a square around a place.
fn ring(canvas: &mut Canvas, x: usize, y: usize, half: usize, ink: Rgb) {
    let (left, top) = (x.saturating_sub(half), y.saturating_sub(half));
    let side = 2 * half + 1;
    canvas.fill(left, top, side, 2, ink);
    canvas.fill(left, y + half - 1, side, 2, ink);
    canvas.fill(left, top, 2, side, ink);
    canvas.fill(x + half - 1, top, 2, side, ink);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likely_places_are_red_and_others_show_the_slide() {
        let rgb = vec![200; 40 * 20 * 3];
        let mut map = vec![0.0; 4 * 8];
        map[8 + 6] = 1.0;
        let ring = vec![[4.0, 10.0], [10.0, 10.0], [10.0, 16.0], [4.0, 16.0]];
        let picture = SlidePicture {
            title: "t",
            rgb: &rgb,
            width: 40,
            shape: [4, 8],
            map: &map,
            peaks: &[(1.0, [1, 6])],
            truth: Some(&[ring]),
            per_mm: None,
        };
        let canvas = picture.draw();
        let head = canvas.height() - 20 - MARGIN - (MARGIN + BAR + text::line_height(text::SMALL));
        assert_eq!(canvas.get(MARGIN + 1, head + 1), [200; 3]);
        let [r, g, b] = canvas.get(MARGIN + 32, head + 7);
        assert!(r > 150 && g < 90 && b < 120, "{r} {g} {b}");
        // The edges of the ring, and neither its inside nor its outside.
        let at = |x: usize, y: usize| canvas.get(MARGIN + x, head + y);
        assert_eq!([at(7, 10), at(4, 13), at(10, 13), at(7, 16)], [TRUTH; 4]);
        assert_eq!([at(7, 13), at(20, 13)], [[200; 3]; 2]);
    }
}
