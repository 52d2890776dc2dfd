//! A contact sheet: many panels in a grid.

use super::canvas::{Canvas, Rgb};
use super::colours::{BACKGROUND, TEXT};
use super::panel::{Panel, legend};

const FAINT: Rgb = [170, 170, 175];
const MARGIN: usize = 12;
const LINE: usize = 26;
const PANEL_WIDTH: usize = 240;

/// Draws the panels in rows of `columns` under a title, captions below each.
pub fn sheet(title: &str, panels: &[Panel], columns: usize) -> Canvas {
    let columns = columns.clamp(1, panels.len().max(1));
    let rows: Vec<&[Panel]> = panels.chunks(columns).collect();
    let tallest = |row: &[Panel]| row.iter().map(|panel| panel.height_at(PANEL_WIDTH)).max().unwrap_or(0);
    let height = LINE + MARGIN + rows.iter().map(|row| tallest(row) + LINE + MARGIN).sum::<usize>() + LINE;
    let mut canvas = Canvas::new(MARGIN + columns * (PANEL_WIDTH + MARGIN), height, BACKGROUND);
    canvas.text(MARGIN, 9, 2, TEXT, &fitting(title, canvas.width() - 2 * MARGIN));
    let mut top = LINE + MARGIN;
    for row in rows {
        for (column, panel) in row.iter().enumerate() {
            let left = MARGIN + column * (PANEL_WIDTH + MARGIN);
            panel.draw(&mut canvas, left, top, PANEL_WIDTH, panel.height_at(PANEL_WIDTH));
            canvas.text(left, top + tallest(row) + 6, 2, FAINT, &fitting(&panel.caption, PANEL_WIDTH));
        }
        top += tallest(row) + LINE + MARGIN;
    }
    if panels.iter().any(|panel| panel.label.iter().any(|class| *class > 0)) {
        legend(&mut canvas, MARGIN, top, TEXT, false);
    }
    canvas
}

/// A text, cut to a width.
fn fitting(text: &str, width: usize) -> String {
    let mut text = text.to_owned();
    while Canvas::text_width(2, &text) > width && text.pop().is_some() {}
    text
}
