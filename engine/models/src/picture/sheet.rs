//! A contact sheet: many panels in a grid.

use hearth_pictures::colours::{BACKGROUND, FAINT, TEXT};
use hearth_pictures::{Canvas, text};

use super::legend::Legend;
use super::panel::{Panel, Place};

const MARGIN: usize = 12;
const PANEL_WIDTH: usize = 240;

/// Draws the panels in rows of `columns` under a title, captions below each; `names` are those of
/// class 1, 2, ... of their outlines.
pub fn sheet(title: &str, panels: &[Panel], names: &[String], columns: usize) -> Canvas {
    let columns = columns.clamp(1, panels.len().max(1));
    let width = columns * (PANEL_WIDTH + MARGIN) - MARGIN;
    let [head, line] = [text::TITLE, text::SMALL].map(text::line_height);
    let heads = text::wrap(text::TITLE, title, width);
    let lines: Vec<Vec<String>> =
        panels.iter().map(|panel| text::wrap(text::SMALL, &panel.caption, PANEL_WIDTH)).collect();
    let rows = || panels.chunks(columns).zip(lines.chunks(columns));
    let tallest = |row: &[Panel]| row.iter().map(|panel| panel.height_at(PANEL_WIDTH)).max().unwrap_or(0);
    let captions = |lines: &[Vec<String>]| lines.iter().map(Vec::len).max().unwrap_or(0) * line;
    let legend = Legend::new(panels, names);
    let room = if legend.is_empty() { 0 } else { legend.height(width) + MARGIN };
    let grid: usize = rows().map(|(row, lines)| tallest(row) + captions(lines) + MARGIN).sum();
    let height = MARGIN + heads.len() * head + MARGIN / 2 + grid + room;
    let mut canvas = Canvas::new(width + 2 * MARGIN, height, BACKGROUND);
    for (index, words) in heads.iter().enumerate() {
        canvas.text(MARGIN, MARGIN / 2 + index * head, text::TITLE, TEXT, words);
    }
    let mut top = MARGIN + heads.len() * head + MARGIN / 2;
    for (row, lines) in rows() {
        for (column, (panel, words)) in row.iter().zip(lines).enumerate() {
            let left = MARGIN + column * (PANEL_WIDTH + MARGIN);
            panel.draw(&mut canvas, Place { left, top, width: PANEL_WIDTH, height: panel.height_at(PANEL_WIDTH) });
            for (index, words) in words.iter().enumerate() {
                canvas.text(left, top + panel.height_at(PANEL_WIDTH) + index * line, text::SMALL, FAINT, words);
            }
        }
        top += tallest(row) + captions(lines) + MARGIN;
    }
    legend.draw(&mut canvas, MARGIN, top, width);
    canvas
}
