//! Text: sizes, widths, lines.
//!
//! The font is Noto Sans Medium, reduced to Latin, Greek and Cyrillic letters (46 kB); its licence
//! is the SIL Open Font License (`font/OFL.txt`). Missing letters are drawn as boxes.

use std::sync::LazyLock;

use ab_glyph::{Font, FontRef, GlyphId, PxScale, ScaleFont};

/// Remarks and captions, in pixels of the font's em.
pub const SMALL: f32 = 14.0;
/// Names and numbers.
pub const BODY: f32 = 16.0;
/// Titles.
pub const TITLE: f32 = 18.0;

static FONT: LazyLock<FontRef<'static>> = LazyLock::new(|| {
    FontRef::try_from_slice(include_bytes!("../font/NotoSans-Medium-subset.ttf"))
        .expect("the font in the crate is whole")
});

/// The scale at which the em has `size` pixels.
fn scale(size: f32) -> PxScale {
    PxScale::from(size * FONT.height_unscaled() / FONT.units_per_em().unwrap_or(1000.0))
}

/// The distance of lines in pixels.
pub fn line_height(size: f32) -> usize {
    FONT.as_scaled(scale(size)).height().ceil() as usize
}

/// The width of a line of text in pixels.
pub fn width(size: f32, text: &str) -> usize {
    let font = FONT.as_scaled(scale(size));
    text.chars().map(|letter| font.h_advance(glyph(letter))).sum::<f32>().ceil() as usize
}

/// Splits a text into lines of at most `most` pixels, between words if possible. Nothing is
/// omitted; a width below that of a letter yields one letter per line.
pub fn wrap(size: f32, text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(char::is_whitespace) {
        let last = lines.len() - 1;
        if width(size, &format!("{}{}", lines[last], word.trim_end())) <= most {
            lines[last] += word;
            continue;
        }
        if !lines[last].is_empty() {
            lines.push(String::new());
        }
        for letter in word.chars() {
            let last = lines.len() - 1;
            if !lines[last].is_empty() && width(size, format!("{}{letter}", lines[last]).trim_end()) > most {
                lines.push(String::new());
            }
            lines.last_mut().into_iter().for_each(|line| line.push(letter));
        }
    }
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    lines
}

/// The letter's glyph in the font; unprintable letters become spaces.
fn glyph(letter: char) -> GlyphId {
    FONT.glyph_id(if letter.is_control() { ' ' } else { letter })
}

/// Calls `dot` with column, row and coverage (0 to 1) of every pixel of a text that begins at
/// column 0; row 0 is the top of its line. Positions may be negative.
pub(crate) fn rasterize(size: f32, text: &str, mut dot: impl FnMut(i64, i64, f32)) {
    let font = FONT.as_scaled(scale(size));
    let mut left = 0.0;
    for letter in text.chars() {
        let glyph = glyph(letter);
        let placed = glyph.with_scale_and_position(scale(size), ab_glyph::point(left, font.ascent()));
        left += font.h_advance(glyph);
        if let Some(outline) = font.outline_glyph(placed) {
            let corner = outline.px_bounds().min;
            outline
                .draw(|x, y, coverage| dot(corner.x as i64 + i64::from(x), corner.y as i64 + i64::from(y), coverage));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_hold_all_of_the_text() {
        let text = "12 RandCropByPosNegLabel, a crop around the left hippocampus (anterior)";
        for most in [60, 120, 300, 5000] {
            let lines = wrap(BODY, text, most);
            assert!(lines.iter().all(|line| width(BODY, line) <= most), "{most}: {lines:?}");
            let without = |text: &str| text.replace(' ', "");
            assert_eq!(without(&lines.concat()), without(text));
        }
        assert_eq!(wrap(BODY, text, 5000).len(), 1);
        assert_eq!(wrap(BODY, "", 10), [""]);
        assert_eq!(wrap(BODY, "ab", 0), ["a", "b"]);
    }

    #[test]
    fn letters_that_the_font_lacks_take_room() {
        assert!(width(BODY, "脾") > 0 && width(BODY, "é") > 0 && width(BODY, "\n") == width(BODY, " "));
        // Proportional, unlike a typewriter's font.
        assert!(width(BODY, "mm") > width(BODY, "ii"));
    }
}
