//! Lines of protocol 0.

use crate::Result;

/// A line as a text.
pub(crate) fn text(line: &[u8]) -> Result<&str> {
    std::str::from_utf8(line).map_err(|_| "the pickle has a line that is not text".into())
}

/// A number in decimal.
pub(crate) fn parsed<T: std::str::FromStr>(line: &[u8]) -> Result<T> {
    let line = text(line)?;
    line.trim_end_matches('L').parse().map_err(|_| format!("the pickle has the number {line:?}").into())
}

/// Whether a line is a whole number, of any size.
pub(crate) fn is_whole(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"L").unwrap_or(line);
    let digits = line.strip_prefix(b"-").unwrap_or(line);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// Decodes `raw-unicode-escape`: a byte is a character, except for `\uXXXX` and `\UXXXXXXXX`.
pub(crate) fn unescaped(line: &[u8]) -> Result<String> {
    let wrong = || "the pickle has a text with an invalid escape";
    let mut text = String::with_capacity(line.len());
    let mut at = 0;
    while at < line.len() {
        let digits = match (line[at], line.get(at + 1)) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            (byte, _) => {
                text.push(char::from(byte));
                at += 1;
                continue;
            }
        };
        let code = line.get(at + 2..at + 2 + digits).filter(|code| code.iter().all(u8::is_ascii_hexdigit));
        let code = code.and_then(|code| u32::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        text.push(code.and_then(char::from_u32).ok_or_else(wrong)?);
        at += 2 + digits;
    }
    Ok(text)
}

/// The bytes of a Python 2 text in its literal form: `'a\n'`.
pub(crate) fn quoted(line: &[u8]) -> Result<Vec<u8>> {
    let wrong = || "the pickle has a text without quotes, or with an invalid escape";
    let within = match line {
        [first @ (b'\'' | b'"'), within @ .., last] if first == last => within,
        _ => return Err(wrong().into()),
    };
    let mut bytes = Vec::with_capacity(within.len());
    let mut rest = within;
    while let [first, after @ ..] = rest {
        if *first != b'\\' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let (code, length) = match after {
            [b'n', ..] => (b'\n', 1),
            [b'r', ..] => (b'\r', 1),
            [b't', ..] => (b'\t', 1),
            [quote @ (b'\\' | b'\'' | b'"'), ..] => (*quote, 1),
            [b'x', high, low, ..] => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = digit(*high).zip(digit(*low)).ok_or_else(wrong)?;
                ((high * 16 + low) as u8, 3)
            }
            _ => return Err(wrong().into()),
        };
        bytes.push(code);
        rest = &after[length..];
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `pickle.dumps("\u00e9t\u00e9 \u6a21", protocol=0)`, and the output of Python 2.
    #[test]
    fn texts_of_protocol_0_are_those_of_python() {
        assert_eq!(unescaped(b"\xe9t\xe9 \\u6a21").as_deref(), Ok("\u{e9}t\u{e9} \u{6a21}"));
        assert_eq!(unescaped(b"\\U0001f600 \\n").as_deref(), Ok("\u{1f600} \\n"));
        for wrong in [&b"\\u12"[..], b"\\ud800", b"\\uzzzz"] {
            assert!(unescaped(wrong).is_err());
        }
        assert_eq!(quoted(b"'a\\n\\x00\\'\"'").as_deref(), Ok(&b"a\n\x00'\""[..]));
        for wrong in [&b"'a"[..], b"", b"'", b"'\\", b"'\\x0'", b"'\\q'"] {
            assert!(quoted(wrong).is_err());
        }
    }

    #[test]
    fn whole_numbers_are_told() {
        assert!(is_whole(b"-18446744073709551617L") && !is_whole(b"-L") && !is_whole(b"1.5"));
        assert_eq!((parsed::<i64>(b"-3L"), parsed::<f64>(b"2.5")), (Ok(-3), Ok(2.5)));
    }
}
