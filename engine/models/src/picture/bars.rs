//! Named values as horizontal bars.

use hearth_pictures::colours::{BACKGROUND, CURVE, FAINT, TEXT};
use hearth_pictures::{Canvas, text};

const WIDTH: usize = 960;
const TOP: usize = 56;
const ROW: usize = 34;
const MARGIN: usize = 20;

/// One bar.
pub struct Bar {
    /// The name, on the left.
    pub name: String,
    /// The value that is the bar's length; no bar if non-finite or negative.
    pub value: f64,
    /// The text, on the right.
    pub text: String,
}

/// A list of bars.
pub struct Bars<'a> {
    /// The bars, from top to bottom.
    pub bars: &'a [Bar],
    /// The value of a bar of full length; by default the largest one.
    pub full: Option<f64>,
}

impl Bars<'_> {
    /// The height in pixels.
    pub fn height(&self) -> usize {
        ROW * self.bars.len()
    }

    /// Draws the bars into `width` columns.
    pub fn draw(&self, canvas: &mut Canvas, left: usize, top: usize, width: usize) {
        let widest = |words: fn(&Bar) -> &str| {
            self.bars.iter().map(|bar| text::width(text::BODY, words(bar))).max().unwrap_or(0)
        };
        let from = left + widest(|bar| &bar.name) + 10;
        let room = (left + width).saturating_sub(from + widest(|bar| &bar.text) + 10);
        let length = |value: f64| if value.is_finite() && value > 0.0 { value } else { 0.0 };
        let most = self.bars.iter().map(|bar| length(bar.value)).fold(f64::MIN_POSITIVE, f64::max);
        let full = self.full.unwrap_or(most);
        for (i, bar) in self.bars.iter().enumerate() {
            let top = top + i * ROW;
            canvas.text(left, top, text::BODY, TEXT, &bar.name);
            let wide = ((length(bar.value) / full).min(1.0) * room as f64).round() as usize;
            canvas.fill(from, top, wide, ROW - 10, CURVE);
            canvas.text(from + wide + 10, top, text::BODY, FAINT, &bar.text);
        }
    }
}

/// A picture of bars below a title, from 0 to the largest value.
pub fn bars(title: &str, bars: &[Bar]) -> Canvas {
    let bars = Bars { bars, full: None };
    let mut canvas = Canvas::new(WIDTH, TOP + bars.height() + MARGIN, BACKGROUND);
    canvas.text(MARGIN, 16, text::TITLE, TEXT, title);
    bars.draw(&mut canvas, MARGIN, TOP, WIDTH - 2 * MARGIN);
    canvas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_in_proportion_and_odd_values_have_none() {
        let row = |name: &str, value: f64| Bar { name: name.into(), value, text: format!("{value}") };
        let rows = [row("plain", 4.0), row("half", 2.0), row("none", f64::NAN), row("below", -1.0)];
        let canvas = bars("title", &rows);
        let length = |i: usize| (0..WIDTH).filter(|x| canvas.get(*x, TOP + i * ROW) == CURVE).count();
        assert!(length(0) > WIDTH / 2);
        assert!(length(1).abs_diff(length(0) / 2) <= 1);
        assert_eq!((length(2), length(3)), (0, 0));
        assert_eq!(bars("", &[]).height(), TOP + MARGIN);
    }
}
