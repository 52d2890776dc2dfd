//! An RGB picture to draw on.

use std::path::Path;

use super::font;
use crate::error::{Context, Outcome};
use crate::folders::replace;

/// Red, green, blue.
pub type Rgb = [u8; 3];

/// A picture: rows of pixels, top row first.
pub struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<Rgb>,
}

impl Canvas {
    /// A picture of one colour.
    pub fn new(width: usize, height: usize, colour: Rgb) -> Self {
        Self { width, height, pixels: vec![colour; width * height] }
    }

    /// Pixels in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The colour of a pixel inside the picture.
    pub fn get(&self, x: usize, y: usize) -> Rgb {
        self.pixels[y * self.width + x]
    }

    /// Sets a pixel; one outside of the picture is ignored.
    pub fn set(&mut self, x: usize, y: usize, colour: Rgb) {
        if x < self.width && y < self.height {
            self.pixels[y * self.width + x] = colour;
        }
    }

    /// Fills a rectangle.
    pub fn fill(&mut self, x: usize, y: usize, width: usize, height: usize, colour: Rgb) {
        for row in y..y + height {
            for column in x..x + width {
                self.set(column, row, colour);
            }
        }
    }

    /// Writes a text, its letters `7 * scale` pixels high; returns where the next letter would
    /// start.
    pub fn text(&mut self, x: usize, y: usize, scale: usize, colour: Rgb, text: &str) -> usize {
        let mut left = x;
        for letter in text.chars() {
            for (column, bits) in font::glyph(letter).iter().enumerate() {
                for row in (0..8).filter(|row| bits >> row & 1 == 1) {
                    self.fill(left + column * scale, y + row * scale, scale, scale, colour);
                }
            }
            left += font::ADVANCE * scale;
        }
        left
    }

    /// How wide a text is.
    pub fn text_width(scale: usize, text: &str) -> usize {
        text.chars().count() * font::ADVANCE * scale
    }

    /// Writes the picture as a PNG.
    pub fn save(&self, path: &Path) -> Outcome {
        let doing = || format!("cannot write {}", path.display());
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().while_doing(doing)?;
        writer.write_image_data(self.pixels.as_flattened()).while_doing(doing)?;
        writer.finish().while_doing(doing)?;
        Ok(replace(path, file)?)
    }
}
