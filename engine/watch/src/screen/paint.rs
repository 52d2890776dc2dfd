//! Converts a drawn buffer to terminal output.

use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::style::{Color, Modifier};

/// The whole buffer from the upper left corner: every line is drawn over the previous one, so that
/// nothing flickers.
pub fn ansi(buffer: &Buffer, colours: bool) -> String {
    let mut text = String::from("\x1b[H");
    let width = usize::from(buffer.area.width).max(1);
    for (number, row) in buffer.content.chunks(width).enumerate() {
        text += &format!("\x1b[{};1H", number + 1);
        let (mut before, mut covered) = (String::new(), 0_usize);
        for cell in row {
            // A character that is two columns wide covers the next cell.
            if covered > 0 {
                covered -= 1;
                continue;
            }
            let style = style(cell, colours);
            if style != before {
                text += &style;
                before = style;
            }
            text += cell.symbol();
            covered = ratatui_core::text::Span::raw(cell.symbol()).width().saturating_sub(1);
        }
        text += "\x1b[0m\x1b[K";
    }
    text
}

fn style(cell: &Cell, colours: bool) -> String {
    let mut codes = vec!["0"];
    for (modifier, code) in [(Modifier::BOLD, "1"), (Modifier::DIM, "2")] {
        if cell.modifier.contains(modifier) {
            codes.push(code);
        }
    }
    codes.extend(colour(cell.fg).filter(|_| colours));
    format!("\x1b[{}m", codes.join(";"))
}

fn colour(colour: Color) -> Option<&'static str> {
    Some(match colour {
        Color::Red => "31",
        Color::Green => "32",
        Color::Yellow => "33",
        Color::Blue => "34",
        Color::Cyan => "36",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use ratatui_core::layout::Rect;
    use ratatui_core::style::Style;

    use super::*;

    #[test]
    fn a_line_has_its_styles_once_and_wide_letters_cover_two_cells() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 6, 1));
        buffer.set_string(0, 0, "ab", Style::new().fg(Color::Red).bold());
        buffer.set_string(2, 0, "脾x", Style::new());
        let shown = ansi(&buffer, true);
        assert_eq!(shown, "\x1b[H\x1b[1;1H\x1b[0;1;31mab\x1b[0m脾x \x1b[0m\x1b[K");
        assert!(!ansi(&buffer, false).contains("31"));
    }
}
