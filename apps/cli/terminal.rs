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
use crate::ranks::local_rank;
use crate::recipe::Document;
use crate::run::Plan;
use hearth_train::Ranks;

pub use hearth_recipe::text::{bytes, seconds, thousands};

/// Whether this process prints: of several ranks, the first one alone.
static SPEAKS: AtomicBool = AtomicBool::new(true);

thread_local! {
    /// The same of a rank that is a thread.
    static SPEAKS_HERE: Cell<bool> = const { Cell::new(true) };
    /// Results of a rank that does not print, until the first one does.
    static UNSAID: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Lets this process print, or not.
pub fn speak(whether: bool) {
    SPEAKS.store(whether, Ordering::Relaxed);
}

/// Lets this thread print, or not.
pub fn speak_here(whether: bool) {
    SPEAKS_HERE.set(whether);
}

/// Lines of results that this rank would have printed since the last call.
pub fn unsaid() -> Vec<String> {
    UNSAID.take()
}

/// Whether this thread prints; threads that work for it do so too, by [`speak_here`].
pub fn speaks_here() -> bool {
    SPEAKS_HERE.get()
}

/// Keeps what another thread of this rank left unsaid.
pub fn keep_unsaid(lines: Vec<String>) {
    UNSAID.with_borrow_mut(|kept| kept.extend(lines));
}

/// Discards the lines of a job's results.
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

/// Lines of a job's results, on standard output.
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

/// Whether what this thread says is printed.
pub fn speaks() -> bool {
    SPEAKS.load(Ordering::Relaxed) && SPEAKS_HERE.get()
}

/// Prints a line of results to standard output. A closed pipe (`| head`) ends the program quietly.
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
    if !speaks() {
        UNSAID.with_borrow_mut(|lines| lines.push(text.to_string()));
        return;
    }
    let mut out = std::io::stdout().lock();
    let clear = if out.is_terminal() && watched() { clear_line() } else { "" };
    if let Err(error) = out.write_fmt(format_args!("{clear}{text}\n")).and_then(|()| out.flush()) {
        // Whoever closes the pipe has seen enough; anything else (a full disk) is a failure.
        if error.kind() == ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        error_line(format_args!("{}cannot write to standard output: {error}", red("error: ")));
        std::process::exit(1);
    }
}

/// See [`note!`].
pub fn note_line(text: Arguments<'_>) {
    if speaks() {
        error_line(text);
    }
}

/// Prints a line to standard error, whoever speaks: what ends a rank is to be seen.
pub fn error_line(text: Arguments<'_>) {
    // A run goes on when nobody reads its notes any more.
    let _ = std::io::stderr().write_all(format!("{}{text}\n", clear_line()).as_bytes());
}

/// What a line begins with, so that it takes the place of a bar rather than standing behind it: the
/// bar draws itself again below. Nothing where nobody watches.
pub fn clear_line() -> &'static str {
    static CLEAR: OnceLock<bool> = OnceLock::new();
    let obeys = || watched() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    if *CLEAR.get_or_init(obeys) { hearth_data::CLEAR_LINE } else { "" }
}

/// Standard error for a library that writes its own lines, each at once; those that cannot be
/// written are dropped.
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

/// Shows the notices of `hearth-recipe` as lines of progress.
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
        // What only another rank knows, it reports itself.
        match *event.metadata().level() {
            Level::ERROR => error_line(format_args!("{}{}", red("error: "), message.0)),
            Level::WARN => note_line(format_args!("warning: {}", message.0)),
            _ => note_line(format_args!("{}", message.0)),
        }
    }
}

/// Whether standard error is a terminal: bars there, plain lines elsewhere.
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

/// A recipe made ready to run, which shows the filling of its caches here.
pub fn plan(document: Document) -> Outcome<Plan> {
    plan_of_rank(document, None)
}

/// The same on the device of a rank.
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
