//! Pictures of numbers of whole images, below the image's middle slices.

use hearth_pictures::Canvas;
use hearth_pictures::colours::{TEXT, of_class};
use hearth_pictures::text;

use super::bars::{Bar, Bars};
use super::board::{Board, MARGIN};
use super::subject::Subject;

/// Draws probabilities of classes as bars. `truth` states for each class whether the image has it.
pub fn classification(subject: &Subject<'_>, names: &[String], scores: &[f32], truth: Option<&[bool]>) -> Canvas {
    let bar = |(index, score): (usize, &f32)| {
        let name = names.get(index).cloned().unwrap_or_else(|| format!("class {index}"));
        let is_true = truth.is_some_and(|truth| truth.get(index) == Some(&true));
        let label = if is_true { "   label" } else { "" };
        Bar { name, value: f64::from(*score), text: format!("{score:.3}{label}") }
    };
    let all: Vec<Bar> = scores.iter().enumerate().map(bar).collect();
    let bars = Bars { bars: &all, full: Some(1.0) };
    let mut board = Board::new(subject.title, &[subject.planes(Vec::new())], |_| bars.height());
    bars.draw(&mut board.canvas, MARGIN, board.top, board.width);
    board.canvas
}

/// Draws numbers as text: each of `names` with its value, and the true value if known.
pub fn regression(subject: &Subject<'_>, names: &[String], values: &[f32], truth: Option<&[f64]>) -> Canvas {
    let line = |(index, value): (usize, &f32)| {
        let name = names.get(index).cloned().unwrap_or_else(|| format!("number {index}"));
        let known = truth.and_then(|truth| truth.get(index));
        let label = known.map_or(String::new(), |truth| {
            format!("   label {}   off by {}", number(*truth), number(f64::from(*value) - truth))
        });
        (name, format!("{}{label}", number(f64::from(*value))))
    };
    let lines: Vec<(String, String)> = values.iter().enumerate().map(line).collect();
    let (size, tall) = (text::TITLE, text::line_height(text::TITLE));
    let wide = lines.iter().map(|(name, _)| text::width(size, name)).max().unwrap_or(0) + 2 * MARGIN;
    let wrapped = |width: usize| -> Vec<(&str, Vec<String>)> {
        let room = width.saturating_sub(wide);
        lines.iter().map(|(name, words)| (name.as_str(), text::wrap(size, words, room))).collect()
    };
    let high = |width: usize| wrapped(width).iter().map(|(_, words)| words.len()).sum::<usize>() * tall;
    let mut board = Board::new(subject.title, &[subject.planes(Vec::new())], high);
    let mut top = board.top;
    for (name, words) in wrapped(board.width) {
        board.canvas.text(MARGIN, top, size, TEXT, name);
        for words in words {
            board.canvas.text(MARGIN + wide, top, size, of_class(1), &words);
            top += tall;
        }
    }
    board.canvas
}

/// Formats a number with four significant digits.
fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    if (-6..=9).contains(&digits) { format!("{value:.*}", digits.max(0) as usize) } else { format!("{value:.3e}") }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_have_four_digits() {
        for (value, words) in [
            (0.0, "0"),
            (1.0, "1.000"),
            (-61.2345, "-61.23"),
            (123_456.7, "123457"),
            (0.000_123_456, "0.0001235"),
            (1.5e-12, "1.500e-12"),
            (4e20, "4.000e20"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(number(value), words);
        }
    }
}
