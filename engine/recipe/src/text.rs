//! Numbers and errors in a form for users.

/// `1234567` as `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The first of some names, and how many more there are: `a, b, c and 4 more`.
pub fn some(names: &[String]) -> String {
    const SHOWN: usize = 6;
    let more = names.len().saturating_sub(SHOWN);
    let shown = names[..names.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// A number of bytes for people: `3.2 MiB`.
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// Describes an error in a JSON file without terms of Rust: `line 3: expected a list, not integer 3`.
pub fn json_fault(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let at = format!(" at line {} column {}", error.line(), error.column());
    let what = text.strip_suffix(&at).unwrap_or(&text);
    let what = match what.strip_prefix("invalid type: ").and_then(|what| what.split_once(", expected ")) {
        Some((found, expected)) => {
            let expected = match expected {
                "a sequence" => "a list",
                "a map" => "a table",
                "a string" => "a text",
                "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" => "a whole number",
                "f32" | "f64" => "a number",
                other if other.starts_with("struct ") => "a table",
                other => other,
            };
            format!("expected {expected}, not {}", found.replace('`', ""))
        }
        None => what.to_owned(),
    };
    format!("line {}: {what}", error.line())
}

/// Joins a message and its causes in one line; skips a cause that is already quoted.
pub fn chain(parts: &[String]) -> String {
    let mut line = String::new();
    for part in parts {
        if !line.is_empty() && line.contains(part.as_str()) {
            continue;
        }
        if !line.is_empty() {
            line += ": ";
        }
        line += part;
    }
    line
}

/// Formats seconds: `0.42 s`, `3 min 05 s`.
pub fn seconds(seconds: f64) -> String {
    if seconds < 60.0 {
        format!("{seconds:.2} s")
    } else {
        let whole = seconds.round() as u64;
        if whole < 3600 {
            format!("{} min {:02} s", whole / 60, whole % 60)
        } else {
            format!("{} h {:02} min", whole / 3600, whole % 3600 / 60)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(thousands(7), "7");
        assert_eq!(thousands(4_808_917), "4,808,917");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(3_355_443), "3.2 MiB");
        assert_eq!(seconds(0.421), "0.42 s");
        assert_eq!(seconds(185.2), "3 min 05 s");
        assert_eq!(seconds(7260.0), "2 h 01 min");
    }

    #[test]
    fn faults_of_json_are_in_words() {
        let of = |text: &str| json_fault(&serde_json::from_str::<Vec<Vec<u64>>>(text).expect_err("wrong"));
        assert_eq!(of("[3]"), "line 1: expected a list, not integer 3");
        assert_eq!(of("[[1],\n[\"a\"]]"), "line 2: expected a whole number, not string \"a\"");
        assert_eq!(of("[[1,"), "line 1: EOF while parsing a value");
    }
}
