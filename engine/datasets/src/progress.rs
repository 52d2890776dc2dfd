//! Display of the progress of long work.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};

/// The display of the progress of long work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// No display.
    #[default]
    None,
    /// A bar with the remaining time, on the terminal.
    Bar,
    /// A plain line for every quarter of the work, for logs.
    Lines,
}

/// Work with progress display.
#[derive(Debug)]
pub struct Running {
    name: &'static str,
    total: u64,
    /// Locked while a line is printed, so that threads print their lines in order.
    done: Mutex<u64>,
    how: Progress,
    bar: Option<ProgressBar>,
}

/// Clears the current line of a terminal before something is printed: a bar is overwritten, not
/// left behind. The bar redraws itself below the printed text.
pub const CLEAR_LINE: &str = "\r\x1b[2K";

/// Prints a line to the error stream. A write error is ignored, so that work continues without a
/// reader.
fn print(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

impl Progress {
    /// Starts the display of work of `total` steps.
    pub fn start(self, name: &'static str, total: u64) -> Running {
        let bar = (self == Progress::Bar && std::io::stderr().is_terminal()).then(|| {
            // Another bar may use the line, such as that of training during a validation.
            let _ = std::io::stderr().write_all(CLEAR_LINE.as_bytes());
            let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {eta}");
            let bar = ProgressBar::new(total).with_prefix(name);
            match style {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Running { name, total, done: 0.into(), how: self, bar }
    }

    /// Starts the display of work of unknown size: a count on a terminal, and nothing elsewhere.
    pub fn start_counting(self, name: &'static str) -> Running {
        let running = self.start(name, 0);
        let style = ProgressStyle::with_template("{prefix} {pos}  {elapsed}");
        match (running.bar, style) {
            (Some(bar), Ok(style)) => Running { bar: Some(bar.with_style(style)), ..running },
            (bar, _) => Running { bar, ..running },
        }
    }

    /// Starts the display of work of `total` bytes (0 if unknown).
    pub fn start_bytes(self, name: &'static str, total: u64) -> Running {
        let running = self.start(name, total);
        let style = ProgressStyle::with_template("{prefix} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
        match (running.bar, style) {
            (Some(bar), Ok(style)) => Running { bar: Some(bar.with_style(style)), ..running },
            (bar, _) => Running { bar, ..running },
        }
    }

    /// Prints a line to the error stream, unless the display is off.
    pub fn say(self, line: &str) {
        match self {
            Progress::None => tracing::info!("{line}"),
            Progress::Lines => print(format_args!("{line}")),
            Progress::Bar => print(format_args!("{CLEAR_LINE}{line}")),
        }
    }
}

impl Running {
    /// Reports one step as done.
    pub fn advance(&self) {
        self.advance_by(1);
    }

    /// Reports `steps` steps as done.
    pub fn advance_by(&self, steps: u64) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        *done += steps;
        if let Some(bar) = &self.bar {
            bar.inc(steps);
        }
        // Lines remain in a log file, so only one per quarter is printed.
        let quarter = |n: u64| n * 4 / self.total.max(1);
        if self.how == Progress::Lines && self.total > 0 && quarter(*done) != quarter(*done - steps) {
            print(format_args!("{}: {done} of {}", self.name, self.total));
        }
    }

    /// Ends the display.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
