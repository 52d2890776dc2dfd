//! Formatting of numbers and times for readers.

/// The text for a missing value.
pub const NONE: &str = "–";

/// A measured value with four significant digits: `0.9534`, `373.1`, `3e-5`.
pub fn figure(value: f64) -> String {
    if value.is_nan() {
        return NONE.to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "∞" } else { "−∞" }.to_owned();
    }
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(1e-3..1e6).contains(&size) {
        let text = format!("{value:.3e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{power}", trimmed(digits));
    }
    let whole = size.log10().floor() as i32;
    let decimals = (3 - whole).clamp(0, 4) as usize;
    format!("{value:.decimals$}")
}

/// A value on an axis, as short as possible.
pub fn tick(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(1e-3..1e5).contains(&size) {
        let text = format!("{value:.2e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{power}", trimmed(digits));
    }
    trimmed(&format!("{value:.4}")).to_owned()
}

fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Seconds with a suitable unit: `340 ms`, `12.4 s`, `2 min 13 s`, `5 h 20 min`.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return NONE.to_owned();
    }
    if seconds > 0.0 && seconds < 1e-3 {
        return "< 1 ms".to_owned();
    }
    if seconds < 1.0 {
        return format!("{:.0} ms", seconds * 1e3);
    }
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    let (hours, minutes, left) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 { format!("{hours} h {minutes} min") } else { format!("{minutes} min {left} s") }
}

/// Bytes with a suitable unit.
pub fn bytes(count: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (count as f64, 0);
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", units[unit]) }
}

/// A count with its noun: `1 case`, `3 cases`.
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// A name from a file in plain words: `epoch_completed` becomes `epoch completed`.
pub fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// Text for use in an `id`: letters and digits, joined by hyphens.
pub fn slug(text: &str) -> String {
    let letters = text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_four_digits() {
        let shown = [0.95342, 1.0, 0.0, 373.128, 12.3456, 3e-5, f64::NAN, f64::INFINITY, -0.5, 1234567.0].map(figure);
        assert_eq!(shown, ["0.9534", "1.000", "0", "373.1", "12.35", "3e-5", "–", "∞", "-0.5000", "1.235e6"]);
        assert_eq!([0.0, 0.2, 1e-4, 50.0, 0.05, 1e6].map(tick), ["0", "0.2", "1e-4", "50", "0.05", "1e6"]);
    }

    #[test]
    fn times_and_sizes_have_units() {
        assert_eq!([0.34, 12.44, 133.0, 19_230.0].map(duration), ["340 ms", "12.4 s", "2 min 13 s", "5 h 20 min"]);
        assert_eq!(duration(f64::NAN), "–");
        assert_eq!([12, 1500, 4_910_000].map(bytes), ["12 B", "1.5 kB", "4.9 MB"]);
        assert_eq!([counted(1, "case"), counted(0, "case")], ["1 case", "0 cases"]);
    }
}
