//! Lines on standard output and notes on standard error, with colour only where somebody looks at it.

use std::fmt::Arguments;
use std::io::{ErrorKind, IsTerminal, Write};

/// Prints a line of results to standard output. A reader that went away (`| head`) ends the program quietly.
#[macro_export]
macro_rules! out {
    ($($arg:tt)*) => { $crate::terminal::line(format_args!($($arg)*)) };
}

/// Prints a line of progress to standard error.
#[macro_export]
macro_rules! note {
    ($($arg:tt)*) => { $crate::terminal::note_line(format_args!($($arg)*)) };
}

/// See [`out!`].
pub fn line(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        // Whoever closes the pipe has seen enough; anything else (a full disk) is a failure.
        std::process::exit(if error.kind() == ErrorKind::BrokenPipe { 0 } else { 1 });
    }
}

/// See [`note!`].
pub fn note_line(text: Arguments<'_>) {
    // A run goes on when nobody reads its notes any more.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Standard error for a library that writes its own lines; those that cannot be written are dropped.
pub fn stderr() -> impl Write {
    struct Deaf;
    impl Write for Deaf {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = std::io::stderr().write_all(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    Deaf
}

/// Whether standard error is a terminal that somebody watches: bars there, plain lines elsewhere.
pub fn watched() -> bool {
    std::io::stderr().is_terminal()
}

/// How long work is shown.
pub fn progress() -> hearth_data::Progress {
    if watched() { hearth_data::Progress::Bar } else { hearth_data::Progress::Lines }
}

fn colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether standard error takes colours.
pub fn colours_on_stderr() -> bool {
    colours(&std::io::stderr())
}

/// Red on a terminal's standard error.
pub fn red(text: &str) -> String {
    if colours_on_stderr() { format!("\x1b[1;31m{text}\x1b[0m") } else { text.to_owned() }
}

/// Bold on a terminal's standard output.
pub fn bold(text: &str) -> String {
    if colours(&std::io::stdout()) { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
}

/// Grey on a terminal's standard output.
pub fn dim(text: &str) -> String {
    if colours(&std::io::stdout()) { format!("\x1b[2m{text}\x1b[0m") } else { text.to_owned() }
}

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

/// Seconds for people: `0.42 s`, `3 min 05 s`.
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
}
