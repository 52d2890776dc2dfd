//! The errors that cross the contract: plain text, because they may come from a library built by
//! somebody else.

use std::fmt;

/// What a handler returns when it cannot do its work. Any error converts into it with `?`.
pub struct HandlerError(String);

impl HandlerError {
    /// An error of these words.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The words.
    pub fn message(&self) -> &str {
        &self.0
    }
}

impl<E: std::error::Error> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self(chain(&error))
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandlerError({:?})", self.0)
    }
}

/// What the host answers when it cannot do what a handler asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostError(String);

impl HostError {
    /// An error of these words.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The answer to a question this host has no answer to.
    pub fn not_offered(what: &str) -> Self {
        Self(format!("`{what}` is not offered here"))
    }

    /// An error and all its causes, in one line.
    pub fn from_error(error: &dyn std::error::Error) -> Self {
        Self(chain(error))
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for HostError {}

/// An error and its causes, joined by ": ", each said once.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
