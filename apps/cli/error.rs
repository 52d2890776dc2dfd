//! The error of a command: [`Failure`], printed once, by `main`.

use std::error::Error;
use std::io::Write;

use crate::escapes::plain;

/// The maximum number of lines of an error on the screen.
const MAX_LINES: usize = 12;

/// An error to report to the user: what failed, why, and the exit code.
///
/// Any error converts into it with `?`; [`Context::while_doing`] adds what was being done. It does not
/// implement `Error` itself, because only [`Failure::print`] handles it.
pub struct Failure {
    /// The message first, then its causes, outermost first.
    chain: Vec<String>,
    code: u8,
}

/// The result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure with this message and exit code 1; clap uses 2 for arguments that it cannot parse.
    pub fn new(message: impl Into<String>) -> Self {
        Self { chain: vec![message.into()], code: 1 }
    }

    /// The end of an interrupted run: exit code 130, without a message.
    pub fn interrupted() -> Self {
        Self { chain: Vec::new(), code: 130 }
    }

    /// Whether this is the end of an interrupted run.
    pub fn is_interruption(&self) -> bool {
        self.code == 130
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// The whole chain in one line, without causes that the text before them already quotes.
    pub fn line(&self) -> String {
        hearth_recipe::text::chain(&self.chain)
    }

    /// Prepends what was being done; the end of an interrupted run stays without a message.
    pub fn context(mut self, doing: impl Into<String>) -> Self {
        if self.chain.is_empty() {
            return self;
        }
        self.chain.insert(0, doing.into());
        self
    }

    /// Prints the chain to standard error; skips a cause that the line above already quotes.
    pub fn print(&self) {
        // If several ranks fail with the same error, only one prints it.
        if self.chain.is_empty() || crate::run::is_reported() {
            return;
        }
        let mut text = String::new();
        for (depth, part) in self.chain.iter().enumerate() {
            if depth > 0 && self.chain[..depth].iter().any(|said| said.contains(part.as_str())) {
                continue;
            }
            let head = if depth == 0 { crate::terminal::red("error: ") } else { "  because: ".to_owned() };
            let indent = if depth == 0 { "" } else { "    " };
            for (number, line) in part.trim_end().lines().enumerate() {
                text.push_str(if number == 0 { &head } else { indent });
                text.push_str(line);
                text.push('\n');
            }
        }
        let lines: Vec<&str> = text.lines().collect();
        let mut err = std::io::stderr().lock();
        let _ = err.write_all(crate::terminal::clear_line().as_bytes());
        // A closed standard error leaves no place to report to.
        for line in lines.iter().take(MAX_LINES) {
            let _ = writeln!(err, "{}", plain(line));
        }
        if lines.len() > MAX_LINES {
            let _ = writeln!(err, "  ... ({} more lines)", lines.len() - MAX_LINES);
        }
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut chain = vec![error.to_string()];
        let mut source = error.source();
        while let Some(cause) = source {
            chain.push(cause.to_string());
            source = cause.source();
        }
        Self { chain, code: 1 }
    }
}

/// Adds to an error what was being done.
pub trait Context<T> {
    /// `read_nifti(&path).while_doing(|| format!("case {case}"))?`
    fn while_doing<S: Into<String>>(self, doing: impl FnOnce() -> S) -> Outcome<T>;
}

impl<T, E: Into<Failure>> Context<T> for Result<T, E> {
    fn while_doing<S: Into<String>>(self, doing: impl FnOnce() -> S) -> Outcome<T> {
        self.map_err(|error| error.into().context(doing()))
    }
}
