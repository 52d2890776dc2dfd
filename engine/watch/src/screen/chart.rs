//! A curve in text, drawn with braille dots.

use hearth_report::text::tick;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Style, Stylize};
use ratatui_core::symbols::Marker;
use ratatui_core::text::Span;
use ratatui_core::widgets::Widget;
use ratatui_widgets::block::Block;
use ratatui_widgets::chart::{Axis, Dataset, GraphType};

use crate::narrate::plain;

/// A curve.
pub struct Chart {
    /// The title.
    pub title: String,
    /// The name of the horizontal axis.
    pub x: &'static str,
    /// Positions and values, ordered by position.
    pub points: Vec<(f64, f64)>,
}

/// Draws the curve, with the ends of its axes.
pub fn draw(buffer: &mut Buffer, area: Rect, chart: &Chart) {
    let points: Vec<(f64, f64)> = chart.points.iter().copied().filter(|(_, value)| value.is_finite()).collect();
    let (xs, ys) = (ends(points.iter().map(|(x, _)| *x)), ends(points.iter().map(|(_, y)| *y)));
    let labels = |[low, high]: [f64; 2]| [low, high].map(|value| Span::raw(tick(value)));
    let dim = Style::new().dim();
    let curve = Dataset::default()
        .marker(Marker::Braille)
        .graph_type(GraphType::Line)
        .style(Style::new().fg(Color::Cyan))
        .data(&points);
    let title = Span::raw(format!("{} by {}", plain(&chart.title), chart.x)).bold();
    let drawing = ratatui_widgets::chart::Chart::new(vec![curve])
        .block(Block::new().title(title))
        .legend_position(None)
        .x_axis(Axis::default().bounds(xs).labels(labels(xs)).style(dim))
        .y_axis(Axis::default().bounds(ys).labels(labels(ys)).style(dim));
    (drawing).render(area, buffer);
}

/// The lowest and the highest value, widened if all are equal.
fn ends(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    match low < high {
        true => [low, high],
        false if low.is_finite() => [low - 0.5 * low.abs().max(1e-9), high + 0.5 * low.abs().max(1e-9)],
        false => [0.0, 1.0],
    }
}
