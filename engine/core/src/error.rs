//! The errors that cross the handler interface. They are plain text, because they may come from a
//! separately built library.

use std::fmt;

/// The error of a handler that cannot do its work: a text. Any type that implements
/// [`std::error::Error`] converts into it with `?`; the text then has its causes too. A boxed error
/// is no such type: `HandlerError::new(error.to_string())`.
///
/// ```
/// use hearth_engine::HandlerError;
/// fn patience(text: &str) -> Result<u32, HandlerError> {
///     let epochs: u32 = text.parse()?;
///     if epochs == 0 { return Err(HandlerError::new("patience: 0 epochs; give 1 or more")); }
///     Ok(epochs)
/// }
/// assert_eq!(patience("x").unwrap_err().message(), "invalid digit found in string");
/// ```
pub struct HandlerError(String);

impl HandlerError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The message.
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

/// The error of a host that cannot do what a handler requested: a text, without a type that a
/// handler could match on. `?` converts it into a [`HandlerError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostError(String);

impl HostError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The error for a request that this host does not support: "`WHAT` is not supported".
    pub fn not_offered(what: &str) -> Self {
        Self(format!("`{what}` is not supported"))
    }

    /// An error and all its causes on one line.
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

/// An error and its causes, joined by ": ", without repetition.
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
