//! Values with names, as horizontal bars.

use super::canvas::Canvas;
use super::colours::{BACKGROUND, CURVE, FAINT, TEXT};

const WIDTH: usize = 960;
const TOP: usize = 56;
const ROW: usize = 34;
const MARGIN: usize = 20;
const SCALE: usize = 2;

/// One bar.
pub struct Bar {
    /// At its left.
    pub name: String,
    /// Its length; no bar if non-finite or negative.
    pub value: f64,
    /// At its right.
    pub text: String,
}

/// Bars below a title, from 0 to the largest value.
pub fn bars(title: &str, bars: &[Bar]) -> Canvas {
    let mut canvas = Canvas::new(WIDTH, TOP + ROW * bars.len() + MARGIN, BACKGROUND);
    canvas.text(MARGIN, 18, SCALE, TEXT, title);
    let widest =
        |text: fn(&Bar) -> &str| bars.iter().map(|bar| Canvas::text_width(SCALE, text(bar))).max().unwrap_or(0);
    let left = MARGIN + widest(|bar| &bar.name) + 10;
    let room = WIDTH.saturating_sub(left + widest(|bar| &bar.text) + 10 + MARGIN);
    let length = |value: f64| if value.is_finite() && value > 0.0 { value } else { 0.0 };
    let most = bars.iter().map(|bar| length(bar.value)).fold(f64::MIN_POSITIVE, f64::max);
    for (i, bar) in bars.iter().enumerate() {
        let top = TOP + i * ROW;
        canvas.text(MARGIN, top + 5, SCALE, TEXT, &bar.name);
        let wide = (length(bar.value) / most * room as f64).round() as usize;
        canvas.fill(left, top, wide, ROW - 10, CURVE);
        canvas.text(left + wide + 10, top + 5, SCALE, FAINT, &bar.text);
    }
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
