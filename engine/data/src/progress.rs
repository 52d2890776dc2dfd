//! How the progress of long work is shown.

use std::io::Write;

use indicatif::{ProgressBar, ProgressStyle};

/// How the progress of long work is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Not shown.
    #[default]
    None,
    /// A bar with the time left, on the terminal.
    Bar,
    /// A plain line for every tenth, for logs.
    Lines,
}

/// Work with progress display.
#[derive(Debug)]
pub struct Running {
    name: &'static str,
    total: u64,
    done: std::sync::atomic::AtomicU64,
    how: Progress,
    bar: Option<ProgressBar>,
}

/// Prints a line to standard error. A closed stream does not stop the work.
fn print(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

impl Progress {
    /// Begins to show work of `total` steps.
    pub fn start(self, name: &'static str, total: u64) -> Running {
        let bar = (self == Progress::Bar).then(|| {
            let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {eta}");
            let bar = ProgressBar::new(total).with_prefix(name);
            match style {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Running { name, total, done: 0.into(), how: self, bar }
    }

    /// Begins to show work of `total` bytes (0: unknown).
    pub fn start_bytes(self, name: &'static str, total: u64) -> Running {
        let running = self.start(name, total);
        let style = ProgressStyle::with_template("{prefix} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
        match (running.bar, style) {
            (Some(bar), Ok(style)) => Running { bar: Some(bar.with_style(style)), ..running },
            (bar, _) => Running { bar, ..running },
        }
    }

    /// Prints a line (to the error stream), unless nothing is shown.
    pub fn say(self, line: &str) {
        if self == Progress::None {
            tracing::info!("{line}");
        } else {
            print(format_args!("{line}"));
        }
    }
}

impl Running {
    /// One step is done.
    pub fn advance(&self) {
        self.advance_by(1);
    }

    /// `steps` steps are done.
    pub fn advance_by(&self, steps: u64) {
        let done = self.done.fetch_add(steps, std::sync::atomic::Ordering::Relaxed) + steps;
        if let Some(bar) = &self.bar {
            bar.inc(steps);
        }
        // Lines remain in a log file: one per quarter is enough.
        let quarter = |n: u64| n * 4 / self.total.max(1);
        if self.how == Progress::Lines && self.total > 0 && quarter(done) != quarter(done - steps) {
            print(format_args!("{}: {done} of {}", self.name, self.total));
        }
    }

    /// All is done.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
