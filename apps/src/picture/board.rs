//! Rows of panels under a title, all at one scale, with captions and room below.

use hearth_pictures::colours::{BACKGROUND, FAINT, TEXT};
use hearth_pictures::{Canvas, text};

use super::panel::{Panel, Place};

/// Pixels between and around the panels.
pub const MARGIN: usize = 16;
/// How large the largest side of a panel is, and the least that there is for a caption.
const PANEL: usize = 420;
const CAPTION: usize = 150;
/// The least that there is for title and legend.
const WIDTH: usize = 560;

/// Panels that are drawn, and where there is room below them.
pub struct Board {
    /// The picture.
    pub canvas: Canvas,
    /// The first row of the room below.
    pub top: usize,
    /// Columns of that room, from `MARGIN`.
    pub width: usize,
}

impl Board {
    /// Draws rows of panels; `tail` says how much room there is to be below, for so many columns.
    /// A millimetre is as long in each of them.
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
        for ((row, captions), (tallest, caption)) in rows.iter().zip(&captions).zip(&heights) {
            let mut left = MARGIN;
            for ((panel, lines), wide) in row.iter().zip(captions).zip(&widths) {
                let [width, height] = size(panel);
                panel.draw(&mut canvas, Place { left, top, width, height });
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
