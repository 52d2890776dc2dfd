//! A panel: one slice with outlines and letters.

use hearth_pictures::colours::TEXT;
use hearth_pictures::{Canvas, Rgb, text};

use super::outlines;

/// The style of an outline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// The truth: thin, without gaps.
    Solid,
    /// The prediction: thick, with gaps, so that both are visible where they coincide.
    Dashed,
}

/// Outlined classes, each in its colour.
pub struct Layer {
    /// The style of the outlines.
    pub line: Line,
    /// The class of each pixel, row by row; 0 for none.
    pub classes: Vec<u8>,
}

/// A slice, rows from the top.
pub struct Panel {
    /// The number of columns.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
    /// Width and height of a pixel in mm.
    pub pixel: [f64; 2],
    /// The colours, row by row.
    pub pixels: Vec<Rgb>,
    /// The outlined layers. Several layers may cover one pixel.
    pub layers: Vec<Layer>,
    /// The letters of the patient's directions at the left, right, top and bottom: `R`, `L`, `A`,
    /// `P`, `S`, `I`.
    pub letters: Option<[char; 4]>,
    /// The text below.
    pub caption: String,
}

/// A rectangle on the canvas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The left column.
    pub left: usize,
    /// The top row.
    pub top: usize,
    /// The number of columns.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
}

/// Pixels between a letter and the edge.
const INSET: usize = 4;

impl Panel {
    /// Width and height in mm.
    pub fn extent(&self) -> [f64; 2] {
        [self.width as f64 * self.pixel[0], self.height as f64 * self.pixel[1]]
    }

    /// The height when drawn with this width.
    pub fn height_at(&self, width: usize) -> usize {
        let [across, down] = self.extent();
        ((width as f64 * down / across).round() as usize).clamp(1, 3 * width)
    }

    /// The classes that occur in the panel.
    pub fn classes(&self) -> impl Iterator<Item = u8> + '_ {
        self.layers.iter().flat_map(|layer| layer.classes.iter().copied()).filter(|class| *class > 0)
    }

    /// Draws the panel.
    pub fn draw(&self, canvas: &mut Canvas, place: Place) {
        if self.pixels.is_empty() {
            return;
        }
        self.draw_pixels(canvas, place);
        outlines::draw(canvas, place, self);
        self.draw_letters(canvas, place);
    }

    /// Draws the pixels, with bilinear interpolation between their centres.
    fn draw_pixels(&self, canvas: &mut Canvas, place: Place) {
        let across = |at: usize, size: usize, pixels: usize| {
            let place = ((at as f64 + 0.5) * pixels as f64 / size as f64 - 0.5).clamp(0.0, (pixels - 1) as f64);
            (place as usize, (place as usize + 1).min(pixels - 1), place.fract())
        };
        let columns: Vec<_> = (0..place.width).map(|x| across(x, place.width, self.width)).collect();
        for y in 0..place.height {
            let (row, below, fy) = across(y, place.height, self.height);
            let (upper, lower) = (&self.pixels[row * self.width..], &self.pixels[below * self.width..]);
            for (x, &(column, right, fx)) in columns.iter().enumerate() {
                let (a, b, d, e) = (upper[column], upper[right], lower[column], lower[right]);
                // Written out: it is computed for every pixel of a picture.
                let mix = |c: usize| {
                    let above = f64::from(a[c]) * (1.0 - fx) + f64::from(b[c]) * fx;
                    let below = f64::from(d[c]) * (1.0 - fx) + f64::from(e[c]) * fx;
                    (above * (1.0 - fy) + below * fy).round() as u8
                };
                canvas.set(place.left + x, place.top + y, [mix(0), mix(1), mix(2)]);
            }
        }
    }

    /// Draws a letter in the middle of each side.
    fn draw_letters(&self, canvas: &mut Canvas, place: Place) {
        let Some(letters) = self.letters else { return };
        let [left, right, top, bottom] = letters.map(String::from);
        let size = text::BODY;
        let tall = text::line_height(size);
        let far = |whole: usize, part: usize| whole.saturating_sub(part + INSET);
        let middle = |whole: usize, part: usize| whole.saturating_sub(part) / 2;
        let mut write = |letter: &str, x: usize, y: usize| {
            canvas.rimmed_text(place.left + x, place.top + y, size, TEXT, letter);
        };
        let wide = |letter: &str| text::width(size, letter);
        write(&left, INSET, middle(place.height, tall));
        write(&right, far(place.width, wide(&right)), middle(place.height, tall));
        write(&top, middle(place.width, wide(&top)), 0);
        write(&bottom, middle(place.width, wide(&bottom)), far(place.height, tall) + INSET);
    }
}
