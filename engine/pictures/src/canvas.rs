//! An RGB picture to draw on.

use crate::colours::HALO;
use crate::text;

/// A colour: red, green, blue.
pub type Rgb = [u8; 3];

/// A picture: rows of pixels, top row first.
pub struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<Rgb>,
}

impl Canvas {
    /// A picture filled with one colour, `width` x `height` pixels.
    pub fn new(width: usize, height: usize, colour: Rgb) -> Self {
        Self { width, height, pixels: vec![colour; width * height] }
    }

    /// The number of pixels in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The number of rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The colour of a pixel.
    ///
    /// # Panics
    /// If the pixel is outside the picture.
    pub fn get(&self, x: usize, y: usize) -> Rgb {
        self.pixels[y * self.width + x]
    }

    /// The number of pixels of a colour.
    pub fn count(&self, colour: Rgb) -> usize {
        self.pixels.iter().filter(|pixel| **pixel == colour).count()
    }

    /// Sets a pixel; pixels outside the picture are ignored.
    pub fn set(&mut self, x: usize, y: usize, colour: Rgb) {
        if x < self.width && y < self.height {
            self.pixels[y * self.width + x] = colour;
        }
    }

    /// Fills a rectangle, clipped to the picture.
    pub fn fill(&mut self, x: usize, y: usize, width: usize, height: usize, colour: Rgb) {
        for row in y..y.saturating_add(height).min(self.height) {
            for column in x..x.saturating_add(width).min(self.width) {
                self.set(column, row, colour);
            }
        }
    }

    /// Draws a line of two pixels' thickness. A line with an end that is non-finite, or left of or
    /// above the picture, is not drawn.
    pub fn line(&mut self, (x0, y0): (f64, f64), (x1, y1): (f64, f64), colour: Rgb) {
        if ![x0, y0, x1, y1].iter().all(|place| place.is_finite() && *place >= 0.0) {
            return;
        }
        let steps = (x1 - x0).abs().max((y1 - y0).abs()).ceil().clamp(1.0, 4096.0);
        for i in 0..=steps as usize {
            let part = i as f64 / steps;
            self.fill((x0 + (x1 - x0) * part) as usize, (y0 + (y1 - y0) * part) as usize, 2, 2, colour);
        }
    }

    /// Writes a line of text with an em of `size` pixels and the top of the line at `y`; returns
    /// the position of the next letter.
    pub fn text(&mut self, x: usize, y: usize, size: f32, colour: Rgb, text: &str) -> usize {
        self.write(x as i64, y as i64, size, colour, text);
        x + text::width(size, text)
    }

    /// As [`text`](Self::text), with a dark outline around the letters, for text on images.
    pub fn rimmed_text(&mut self, x: usize, y: usize, size: f32, colour: Rgb, text: &str) -> usize {
        for (dx, dy) in (-1..=1).flat_map(|dx| (-1..=1).map(move |dy| (dx, dy))) {
            self.write(x as i64 + dx, y as i64 + dy, size, HALO, text);
        }
        self.text(x, y, size, colour, text)
    }

    fn write(&mut self, x: i64, y: i64, size: f32, colour: Rgb, text: &str) {
        text::rasterize(size, text, |dx, dy, coverage| {
            let (Ok(column), Ok(row)) = (usize::try_from(x + dx), usize::try_from(y + dy)) else { return };
            if column < self.width && row < self.height {
                let pixel = &mut self.pixels[row * self.width + column];
                let part = coverage.clamp(0.0, 1.0);
                *pixel = std::array::from_fn(|c| {
                    (f32::from(pixel[c]) * (1.0 - part) + f32::from(colour[c]) * part).round() as u8
                });
            }
        });
    }

    /// The picture as a PNG file.
    ///
    /// # Errors
    /// If the picture has no pixels, or more in a row than a PNG can have.
    pub fn png(&self) -> Result<Vec<u8>, png::EncodingError> {
        let size = |pixels: usize| u32::try_from(pixels).map_err(|_| png::EncodingError::LimitsExceeded);
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, size(self.width)?, size(self.height)?);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(self.pixels.as_flattened())?;
        writer.finish()?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_reads_what_was_drawn() {
        let mut canvas = Canvas::new(3, 2, [1, 2, 3]);
        canvas.set(2, 1, [9, 8, 7]);
        canvas.fill(1, 0, 100, 1, [5, 5, 5]);
        let file = canvas.png().unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 3, 5, 5, 5, 5, 5, 5, 1, 2, 3, 1, 2, 3, 9, 8, 7]);
        assert!(Canvas::new(0, 4, [0; 3]).png().is_err());
    }

    #[test]
    fn a_line_joins_its_ends() {
        let mut canvas = Canvas::new(20, 20, [0; 3]);
        canvas.line((2.0, 3.0), (17.0, 8.0), [255; 3]);
        assert!((2..=17).all(|x| (0..20).any(|y| canvas.get(x, y) == [255; 3])));
        assert_eq!((canvas.get(2, 3), canvas.get(17, 8)), ([255; 3], [255; 3]));
        for end in [f64::NAN, f64::INFINITY, -1.0] {
            canvas.line((0.0, 19.0), (end, 19.0), [9; 3]);
        }
        assert_eq!(canvas.count([9; 3]), 0);
    }

    #[test]
    fn text_stays_within_its_width_and_the_picture() {
        let mut canvas = Canvas::new(200, 40, [0; 3]);
        let end = canvas.text(10, 5, text::BODY, [255; 3], "hippocampus");
        let lit = |x: usize| (0..40).any(|y| canvas.get(x, y) != [0; 3]);
        assert!((10..end).filter(|x| lit(*x)).count() > 40 && (end..200).all(|x| !lit(x)));
        let mut small = Canvas::new(4, 4, [0; 3]);
        small.rimmed_text(0, 0, text::TITLE, [255; 3], "R");
        small.text(3, 100, text::TITLE, [255; 3], "R");
    }
}
