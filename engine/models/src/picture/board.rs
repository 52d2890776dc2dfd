//! Rows of panels under a title with the same scale, captions and an area below.

use hearth_pictures::colours::{BACKGROUND, FAINT, HALO, TEXT};
use hearth_pictures::{Canvas, axis, text};

use super::panel::{Panel, Place};

/// Pixels between and around the panels.
pub const MARGIN: usize = 16;
/// The size of the largest side of a panel, and the smallest width of a caption.
const PANEL: usize = 420;
const CAPTION: usize = 150;
/// The smallest width of title and legend.
const WIDTH: usize = 560;

/// A picture with drawn panels, and the free area below them.
pub struct Board {
    /// The picture.
    pub canvas: Canvas,
    /// The first row of the area below.
    pub top: usize,
    /// The width of that area, starting at `MARGIN`.
    pub width: usize,
}

impl Board {
    /// Draws rows of panels; `tail` returns the height of the area below for a given width. All
    /// panels have the same scale in pixels per millimetre.
    pub fn new(title: &str, rows: &[Vec<Panel>], tail: impl FnOnce(usize) -> usize) -> Self {
        let longest = rows.iter().flatten().flat_map(Panel::extent).fold(f64::MIN_POSITIVE, f64::max);
        let pixels = |mm: f64| ((mm / longest * PANEL as f64).round() as usize).clamp(1, PANEL);
        let size = |panel: &Panel| panel.extent().map(pixels);
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|panel| size(panel)[0]).max().unwrap_or(0))
            .map(|width| width.max(CAPTION))
            .collect();
        let width = (widths.iter().map(|width| width + MARGIN).sum::<usize>()).saturating_sub(MARGIN).max(WIDTH);
        let heads = text::wrap(text::TITLE, title, width);
        let captions: Vec<Vec<Vec<String>>> = rows
            .iter()
            .map(|row| row.iter().zip(&widths).map(|(p, w)| text::wrap(text::SMALL, &p.caption, *w)).collect())
            .collect();
        let [head, line] = [text::TITLE, text::SMALL].map(text::line_height);
        let heights: Vec<(usize, usize)> = rows
            .iter()
            .zip(&captions)
            .map(|(row, captions)| {
                let tallest = row.iter().map(|panel| size(panel)[1]).max().unwrap_or(0);
                (tallest, captions.iter().map(Vec::len).max().unwrap_or(0) * line + MARGIN / 2)
            })
            .collect();
        let mut top = MARGIN / 2 + heads.len() * head + MARGIN / 2;
        let end = top + heights.iter().map(|(panel, caption)| panel + caption).sum::<usize>();
        let mut canvas = Canvas::new(width + 2 * MARGIN, end + tail(width) + MARGIN, BACKGROUND);
        for (index, words) in heads.iter().enumerate() {
            canvas.text(MARGIN, MARGIN / 2 + index * head, text::TITLE, TEXT, words);
        }
        let mut first = true;
        for ((row, captions), (tallest, caption)) in rows.iter().zip(&captions).zip(&heights) {
            let mut left = MARGIN;
            for ((panel, lines), wide) in row.iter().zip(captions).zip(&widths) {
                let [width, height] = size(panel);
                panel.draw(&mut canvas, Place { left, top, width, height });
                if first && panel.letters.is_some() {
                    scale_bar(&mut canvas, Place { left, top, width, height }, PANEL as f64 / longest);
                }
                first = false;
                for (index, words) in lines.iter().enumerate() {
                    canvas.text(left, top + tallest + 2 + index * line, text::SMALL, FAINT, words);
                }
                left += wide + MARGIN;
            }
            top += tallest + caption;
        }
        Self { canvas, top: end, width }
    }
}

/// Draws a scale bar of a round length at the lower left of a panel: at most a quarter of its width.
pub fn scale_bar(canvas: &mut Canvas, place: Place, per_mm: f64) {
    let most = place.width as f64 / 4.0 / per_mm;
    let Some(mm) = round_length(most) else { return };
    let long = (mm * per_mm).round() as usize;
    let (left, bottom) = (place.left + 12, place.top + place.height.saturating_sub(14));
    canvas.fill(left - 1, bottom - 1, long + 2, 5, HALO);
    canvas.fill(left, bottom, long, 3, TEXT);
    let words = if mm < 1.0 { format!("{} µm", axis::number(mm * 1e3)) } else { format!("{} mm", axis::number(mm)) };
    canvas.rimmed_text(left, bottom.saturating_sub(text::line_height(text::SMALL) + 2), text::SMALL, TEXT, &words);
}

/// The largest of 1, 2 and 5 times a power of ten that is at most `most`.
fn round_length(most: f64) -> Option<f64> {
    let power = 10_f64.powf(most.log10().floor());
    let found = [5.0, 2.0, 1.0].into_iter().map(|digit| digit * power).find(|length| *length <= most * (1.0 + 1e-9));
    found.filter(|length| length.is_finite() && *length > 0.0)
}

#[cfg(test)]
mod tests {
    use super::round_length;

    #[test]
    fn lengths_are_round() {
        assert_eq!([99.0, 50.0, 23.0, 1.2].map(round_length), [Some(50.0), Some(50.0), Some(20.0), Some(1.0)]);
        assert!(round_length(0.03).is_some_and(|length| (length - 0.02).abs() < 1e-12));
        assert_eq!([0.0, f64::NAN, f64::INFINITY].map(round_length), [None; 3]);
    }
}
