//! Lines on standard output and notes on standard error, with colour only on a terminal.

use std::cell::{Cell, RefCell};
use std::fmt::Arguments;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;

use crate::error::Outcome;
use crate::escapes::{BOLD, DIM, RED, RESET, plain};
use crate::ranks::local_rank;
use crate::recipe::Document;
use crate::repeated;
use crate::run::Plan;
use hearth_train::Ranks;

pub use hearth_recipe::text::{bytes, seconds, thousands};

/// Whether this process prints: of several ranks, only the first one does.
static SPEAKS: AtomicBool = AtomicBool::new(true);

/// Whether the command only prints.
static ONLY_PRINTS: AtomicBool = AtomicBool::new(false);

/// Whether result lines could not be written although their reader is still there.
static LOST: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Like [`SPEAKS`], for a rank that is a thread.
    static SPEAKS_HERE: Cell<bool> = const { Cell::new(true) };
    /// Result lines of a rank that does not print, kept until the first rank prints them.
    static UNSAID: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Sets whether this process prints.
pub fn speak(whether: bool) {
    SPEAKS.store(whether, Ordering::Relaxed);
}

/// Sets that the command only prints: it ends when its output cannot be written.
pub fn only_prints() {
    ONLY_PRINTS.store(true, Ordering::Relaxed);
}

/// Whether result lines could not be written although their reader is still there, as on a full disk.
pub fn has_lost_lines() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Sets whether this thread prints.
pub fn speak_here(whether: bool) {
    SPEAKS_HERE.set(whether);
}

/// Takes the result lines that this rank would have printed since the last call.
pub fn unsaid() -> Vec<String> {
    UNSAID.take()
}

/// Whether this thread prints; threads that work for it inherit that through [`speak_here`].
pub fn speaks_here() -> bool {
    SPEAKS_HERE.get()
}

/// Keeps the unprinted lines of another thread of this rank.
pub fn keep_unsaid(lines: Vec<String>) {
    UNSAID.with_borrow_mut(|kept| kept.extend(lines));
}

/// Discards the result lines of a job.
pub struct Quiet;

impl hearth_models::job::Results for Quiet {
    fn line(&self, _: &str) {}

    fn begin_thread(&self, speaks: bool) {
        speak_here(speaks);
    }

    fn speaks(&self) -> bool {
        speaks()
    }

    fn unprinted(&self) -> Vec<String> {
        Vec::new()
    }

    fn keep(&self, _: Vec<String>) {}
}

/// Prints the result lines of a job to standard output.
pub struct Lines;

impl hearth_models::job::Results for Lines {
    fn line(&self, text: &str) {
        line(format_args!("{text}"));
    }

    fn begin_thread(&self, speaks: bool) {
        speak_here(speaks);
    }

    fn speaks(&self) -> bool {
        speaks()
    }

    fn unprinted(&self) -> Vec<String> {
        unsaid()
    }

    fn keep(&self, lines: Vec<String>) {
        keep_unsaid(lines);
    }
}

/// Whether the output of this thread is printed.
pub fn speaks() -> bool {
    SPEAKS.load(Ordering::Relaxed) && SPEAKS_HERE.get()
}

/// Prints a result line to standard output. A closed pipe (`| head`) ends a command that only prints, without
/// an error; one that writes files does its work.
#[macro_export]
macro_rules! out {
    ($($arg:tt)*) => { $crate::terminal::line(format_args!($($arg)*)) };
}

/// Prints a progress line to standard error.
#[macro_export]
macro_rules! note {
    ($($arg:tt)*) => { $crate::terminal::note_line(format_args!($($arg)*)) };
}

/// See [`out!`].
pub fn line(text: Arguments<'_>) {
    if !speaks() {
        UNSAID.with_borrow_mut(|lines| lines.push(text.to_string()));
        return;
    }
    let mut out = std::io::stdout().lock();
    let (clear, text) = match out.is_terminal() {
        true => (if watched() { clear_line() } else { "" }, plain(&text.to_string()).into_owned()),
        // Another program reads names as they are.
        false => ("", text.to_string()),
    };
    if let Err(error) = out.write_fmt(format_args!("{clear}{text}\n")).and_then(|()| out.flush()) {
        unwritten(&error);
    }
}

/// A closed pipe is a normal end; any other error (a full disk, a closed terminal) is a failure.
fn unwritten(error: &std::io::Error) {
    let closed = error.kind() == ErrorKind::BrokenPipe;
    let ends = ONLY_PRINTS.load(Ordering::Relaxed);
    if closed {
        if ends {
            std::process::exit(0);
        }
        return;
    }
    if !LOST.swap(true, Ordering::Relaxed) {
        let what = if ends { "" } else { "; the command continues without its lines, and ends with exit code 1" };
        error_line(format_args!("{}cannot write to standard output: {error}{what}", red("error: ")));
    }
    if ends {
        std::process::exit(1);
    }
}

/// See [`note!`].
pub fn note_line(text: Arguments<'_>) {
    if speaks() {
        error_line(text);
    }
}

/// Prints a line to standard error from any rank: the error that ends a rank must be visible.
pub fn error_line(text: Arguments<'_>) {
    // A run continues if standard error is closed.
    let _ = std::io::stderr().write_all(format!("{}{}\n", clear_line(), plain(&text.to_string())).as_bytes());
}

/// The control sequence that starts a line, so that it replaces a progress bar; the bar then redraws
/// itself below. Empty if standard error is not a terminal.
pub fn clear_line() -> &'static str {
    static CLEAR: OnceLock<bool> = OnceLock::new();
    let obeys = || watched() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    if *CLEAR.get_or_init(obeys) { hearth_data::CLEAR_LINE } else { "" }
}

/// Standard error for a library that writes its own lines, each at once; lines that cannot be written
/// are dropped.
pub fn stderr() -> impl Write {
    struct Deaf;
    impl Write for Deaf {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = std::io::stderr().write_all(&[clear_line().as_bytes(), bytes].concat());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    Deaf
}

/// Prints the notices of `hearth-recipe` as progress lines.
pub struct Notices;

impl<S: Subscriber> Layer<S> for Notices {
    fn on_event(&self, event: &Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        struct Message(String);
        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        // A rank reports what only it knows.
        match *event.metadata().level() {
            Level::ERROR => error_line(format_args!("{}{}", red("error: "), message.0)),
            Level::WARN if !speaks() || !repeated::is_printed(&message.0) => {}
            Level::WARN => note_line(format_args!("warning: {}", message.0)),
            _ => note_line(format_args!("{}", message.0)),
        }
    }
}

/// Whether standard error is a terminal: progress bars on a terminal, plain lines elsewhere.
pub fn watched() -> bool {
    std::io::stderr().is_terminal()
}

/// How the progress of long work is shown.
pub fn progress() -> hearth_data::Progress {
    match speaks() {
        false => hearth_data::Progress::default(),
        true if watched() => hearth_data::Progress::Bar,
        true => hearth_data::Progress::Lines,
    }
}

/// A recipe ready to run; the filling of its caches is shown in the terminal.
pub fn plan(document: Document) -> Outcome<Plan> {
    plan_of_rank(document, None)
}

/// Like [`plan`], on the device of a rank.
pub fn plan_of_rank(document: Document, ranks: Option<&Ranks>) -> Outcome<Plan> {
    let mut plan = Plan::of_rank(document, local_rank(ranks))?;
    plan.progress = progress();
    Ok(plan)
}

fn colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether standard error supports colours.
pub fn colours_on_stderr() -> bool {
    colours(&std::io::stderr())
}

/// Whether standard output supports colours.
pub fn colours_on_stdout() -> bool {
    colours(&std::io::stdout())
}

/// Red if standard error is a terminal.
pub fn red(text: &str) -> String {
    if colours_on_stderr() { format!("{RED}{text}{RESET}") } else { text.to_owned() }
}

/// Bold if standard output is a terminal.
pub fn bold(text: &str) -> String {
    if colours(&std::io::stdout()) { format!("{BOLD}{text}{RESET}") } else { text.to_owned() }
}

/// Grey if standard output is a terminal.
pub fn dim(text: &str) -> String {
    if colours(&std::io::stdout()) { format!("{DIM}{text}{RESET}") } else { text.to_owned() }
}
