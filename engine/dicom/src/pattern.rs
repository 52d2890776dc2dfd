//! Patterns of names: `*` matches any text, `?` any one character; case is ignored.

/// Whether a name is a pattern.
pub(crate) fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// Whether a text matches a pattern; leading and trailing blanks of both are ignored.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let plain = |text: &str| text.trim().to_lowercase().chars().collect::<Vec<char>>();
    let (pattern, text) = (plain(pattern), plain(text));
    let (mut p, mut t) = (0, 0);
    // The position of the last star, and the length of text it has matched.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => (p, t) = (p + 1, t + 1),
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                (p, t) = (at + 1, taken + 1);
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text, fits) in [
            ("GTV*", "gtv-1", true),
            ("GTV*", " GTV ", true),
            ("GTV*", "CGTV", false),
            ("*gtv*", "old_GTV_2", true),
            ("a*b*c", "a-bb-b-c", true),
            ("a*b*c", "a-bb-b-cd", false),
            ("GTV-?", "GTV-12", false),
            ("??", "üé", true),
            ("*", "", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }
}
