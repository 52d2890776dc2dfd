//! JSON as Python writes it, with `NaN` and `Infinity`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::error::{NnunetError, Result};

/// The largest JSON file in bytes. Plans of real data sets have some ten kilobytes, statistics of
/// some thousand cases a few megabytes.
const MAX_BYTES: u64 = 256 << 20;

/// Reads a JSON file.
pub(crate) fn read(path: &Path) -> Result<Value> {
    let io = |source| NnunetError::Io { path: path.to_owned(), source };
    let length = fs::metadata(path).map_err(io)?.len();
    if length > MAX_BYTES {
        let what = format!("{length} bytes, more than the limit of {MAX_BYTES}");
        return Err(NnunetError::File { path: path.to_owned(), what });
    }
    let text = hearth_files::read_to_string(path).map_err(io)?;
    parse(text.trim_start_matches('\u{feff}'))
        .map_err(|error| NnunetError::File { path: path.to_owned(), what: error.to_string() })
}

/// Parses JSON in which numbers may be `NaN`, `Infinity` and `-Infinity`; they become null.
///
/// # Errors
/// Any other invalid JSON.
pub fn parse(text: &str) -> std::result::Result<Value, serde_json::Error> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(_) => serde_json::from_str(&without_literals(text)),
    }
}

/// Replaces Python's literals outside of strings by `null`.
fn without_literals(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut inside) = (text, false);
    while let Some(first) = rest.chars().next() {
        if inside {
            let taken =
                if first == '\\' { 1 + rest[1..].chars().next().map_or(0, char::len_utf8) } else { first.len_utf8() };
            inside = first != '"';
            out.push_str(&rest[..taken]);
            rest = &rest[taken..];
            continue;
        }
        let literal = ["NaN", "-Infinity", "Infinity"].into_iter().find(|literal| rest.starts_with(literal));
        if let Some(literal) = literal {
            out.push_str("null");
            rest = &rest[literal.len()..];
            continue;
        }
        inside = first == '"';
        out.push(first);
        rest = &rest[first.len_utf8()..];
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::parse;

    #[test]
    fn pythons_numbers_are_null_outside_of_text() {
        let value = parse(r#"{"a": NaN, "b": [-Infinity, 1.5], "NaN \" Infinity": "é NaN"}"#).expect("JSON");
        assert_eq!(value, json!({"a": null, "b": [null, 1.5], "NaN \" Infinity": "é NaN"}));
        assert!(parse("{\"a\": NaN").is_err());
        assert!(parse("\"\\").is_err());
    }
}
