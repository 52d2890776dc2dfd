//! Text of others as it is shown: names in a plugin's file, and names of files.

use std::path::Path;

/// The text with its control characters, and the characters that reorder or hide text, as escapes: a
/// name cannot move the cursor, change colours, or look like another name.
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_invisible(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// [`shown`] for a path.
pub fn shown_path(path: &Path) -> String {
    shown(&path.to_string_lossy())
}

/// Marks of direction, separators of lines, and characters without width.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{61c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_shown_as_text() {
        assert_eq!(shown("early-stop 1.0, Läsion 脾"), "early-stop 1.0, Läsion 脾");
        assert_eq!(shown("\u{1b}[2Ja\rb\nc\td\u{7}"), r"\u{1b}[2Ja\rb\nc\td\u{7}");
        assert_eq!(shown("\u{9b}31m\u{202e}fdp\u{200b}"), r"\u{9b}31m\u{202e}fdp\u{200b}");
        assert_eq!(shown_path(Path::new("a\u{1b}.so")), r"a\u{1b}.so");
    }
}
