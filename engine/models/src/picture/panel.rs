//! One slice as it is drawn: pixels, outlines, letters.

use hearth_pictures::colours::TEXT;
use hearth_pictures::{Canvas, Rgb, text};

use super::outlines;

/// How an outline is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// What is true: thin, without gaps.
    Solid,
    /// What is predicted: thick, with gaps, so that both show where they coincide.
    Dashed,
}

/// Classes that are drawn around, each in its colour.
pub struct Layer {
    /// How.
    pub line: Line,
    /// The class of each pixel, row by row; 0 is none.
    pub classes: Vec<u8>,
}

/// A slice, rows from the top.
pub struct Panel {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Width and height of a pixel in mm.
    pub pixel: [f64; 2],
    /// Colours, row by row.
    pub pixels: Vec<Rgb>,
    /// What is drawn around. Several layers may cover one pixel.
    pub layers: Vec<Layer>,
    /// Where left, right, top and bottom are on the patient: `R`, `L`, `A`, `P`, `S`, `I`.
    pub letters: Option<[char; 4]>,
    /// What is written below.
    pub caption: String,
}

/// A place on the canvas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its left column.
    pub left: usize,
    /// Its top row.
    pub top: usize,
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// Pixels between a letter and the edge.
const INSET: usize = 4;

impl Panel {
    /// Width and height in mm.
    pub fn extent(&self) -> [f64; 2] {
        [self.width as f64 * self.pixel[0], self.height as f64 * self.pixel[1]]
    }

    /// How high it is when drawn this wide.
    pub fn height_at(&self, width: usize) -> usize {
        let [across, down] = self.extent();
        ((width as f64 * down / across).round() as usize).clamp(1, 3 * width)
    }

    /// The classes that occur in it.
    pub fn classes(&self) -> impl Iterator<Item = u8> + '_ {
        self.layers.iter().flat_map(|layer| layer.classes.iter().copied()).filter(|class| *class > 0)
    }

    /// Draws it.
    pub fn draw(&self, canvas: &mut Canvas, place: Place) {
        if self.pixels.is_empty() {
            return;
        }
        self.draw_pixels(canvas, place);
        outlines::draw(canvas, place, self);
        self.draw_letters(canvas, place);
    }

    /// Bilinear between the centres of pixels.
    fn draw_pixels(&self, canvas: &mut Canvas, place: Place) {
        let colour = |row: usize, column: usize| self.pixels[row * self.width + column].map(f64::from);
        let across = |at: usize, size: usize, pixels: usize| {
            let place = ((at as f64 + 0.5) * pixels as f64 / size as f64 - 0.5).clamp(0.0, (pixels - 1) as f64);
            (place as usize, (place as usize + 1).min(pixels - 1), place.fract())
        };
        for y in 0..place.height {
            let (row, below, fy) = across(y, place.height, self.height);
            for x in 0..place.width {
                let (column, right, fx) = across(x, place.width, self.width);
                let corners = [colour(row, column), colour(row, right), colour(below, column), colour(below, right)];
                let mixed = std::array::from_fn(|c| {
                    let [a, b, d, e] = corners.map(|corner| corner[c]);
                    ((a * (1.0 - fx) + b * fx) * (1.0 - fy) + (d * (1.0 - fx) + e * fx) * fy).round() as u8
                });
                canvas.set(place.left + x, place.top + y, mixed);
            }
        }
    }

    /// A letter in the middle of each side.
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
