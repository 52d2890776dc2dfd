//! Control characters in names and messages, shown as text: on a terminal they could move the cursor,
//! change the window's title, or hide what was printed.

use std::borrow::Cow;
use std::fmt::Write;

/// The control sequences with which this program itself prints colours.
pub const RED: &str = "\x1b[1;31m";
/// See [`RED`].
pub const BOLD: &str = "\x1b[1m";
/// See [`RED`].
pub const DIM: &str = "\x1b[2m";
/// The end of a colour.
pub const RESET: &str = "\x1b[0m";

/// Text for a terminal: control characters become `\x1b`, `\u{9b}` and the like. Line ends, tabs and this
/// program's colours stay.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(own) = [RED, BOLD, DIM, RESET].into_iter().find(|own| rest.starts_with(own)) {
            shown.push_str(own);
            rest = &rest[own.len()..];
            continue;
        }
        match c {
            c if !is_control(c) => shown.push(c),
            c if c.is_ascii() => drop(write!(shown, "\\x{:02x}", c as u32)),
            c => shown.extend(c.escape_unicode()),
        }
        rest = &rest[c.len_utf8()..];
    }
    Cow::Owned(shown)
}

/// Control characters, and those that change the direction of the text after them.
fn is_control(c: char) -> bool {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && !matches!(c, '\n' | '\t')) || turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_as_text_and_colours_stay() {
        for (text, shown) in [
            ("a\x1b]0;title\x07b", "a\\x1b]0;title\\x07b"),
            ("\x1b[31mred\x1b[2J", "\\x1b[31mred\\x1b[2J"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("over\rwritten", "over\\x0dwritten"),
            ("gnp.\u{202e}exe", "gnp.\\u{202e}exe"),
            ("two\n\tlines, ü, 心", "two\n\tlines, ü, 心"),
        ] {
            assert_eq!(plain(text), shown);
        }
        let own = format!("{RED}error: {RESET}x{BOLD}y{RESET}");
        assert_eq!(plain(&own), own);
    }
}
