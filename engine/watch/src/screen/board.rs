//! The runs of a folder, ordered by rank.

use hearth_report::text::words;
use hearth_report::{Board, Run};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Constraint, Layout, Rect};
use ratatui_core::style::{Style, Stylize};
use ratatui_core::text::{Line, Span};
use ratatui_core::widgets::Widget;
use ratatui_widgets::table::{Cell, Row, Table};

use super::run::colour;
use crate::narrate::{cells, plain};

/// Draws the runs.
pub fn draw(buffer: &mut Buffer, area: Rect, folder: &str, runs: &[Run]) {
    let [head, body] = Layout::vertical([Constraint::Length(2), Constraint::Min(0)]).areas(area);
    let board = Board::new(runs);
    let counts = board.counts().into_iter().map(|(state, count)| format!("{count} {state}")).collect::<Vec<_>>();
    let title = Line::from(vec![Span::raw(plain(folder)).bold(), Span::raw(format!("  {}", counts.join(", ")))]);
    (title).render(head, buffer);
    let key = board.key.as_deref().map_or("key metric".to_owned(), words);
    let arrow = if board.higher { "▲" } else { "▼" };
    let heads = [
        "rank".to_owned(),
        "run".into(),
        "state".into(),
        "epoch".into(),
        format!("{key} {arrow}"),
        "in epoch".into(),
        "loss".into(),
        "left".into(),
    ];
    let rows: Vec<[String; 8]> = board.rows.iter().map(cells).collect();
    let wide = |column: usize| {
        let cells = rows.iter().chain(std::iter::once(&heads)).map(|row| row[column].chars().count());
        Constraint::Length(cells.max().unwrap_or(0).min(usize::from(u16::MAX)) as u16)
    };
    let widths: Vec<Constraint> =
        (0..8).map(|column| if column == 1 { Constraint::Fill(1) } else { wide(column) }).collect();
    let drawn = rows.iter().zip(&board.rows).map(|(cells, row)| {
        let cell = |(place, text): (usize, &String)| {
            let style = if place == 2 { Style::new().fg(colour(row.run)) } else { Style::new() };
            Cell::from(plain(text)).style(style)
        };
        Row::new(cells.iter().enumerate().map(cell))
    });
    let heads = Row::new(heads.iter().map(|head| Cell::from(plain(head)))).style(Style::new().dim());
    (Table::new(drawn, widths).header(heads).column_spacing(2)).render(body, buffer);
}
