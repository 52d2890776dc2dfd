//! Patterns of parameter names.

/// Whether a pattern matches a whole string: `*` matches any number of characters. The time is
/// proportional to the product of the lengths.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p + 1, t));
            p += 1;
        } else if p < pattern.len() && pattern[p] == text[t] {
            (p, t) = (p + 1, t + 1);
        } else if let Some((after, from)) = star {
            (p, t) = (after, from + 1);
            star = Some((after, from + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn a_star_stands_for_any_characters() {
        assert!(glob("model.0.*", "model.0.conv.weight"));
        assert!(glob("*.bias", "model.0.conv.bias"));
        assert!(glob("*conv*weight", "a.conv.b.conv.weight"));
        assert!(glob("*", ""));
        assert!(glob("a", "a"));
        assert!(!glob("*.bias", "model.0.conv.weight"));
        assert!(!glob("model.0", "model.0.conv"));
        assert!(!glob("a*b", "acbc"));
    }
}
