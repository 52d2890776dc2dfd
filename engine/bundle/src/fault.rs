//! [`Fault`]: an error in a config, with its place.

use std::fmt;

use crate::value::Value;

/// The kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// A file that cannot be read as JSON or YAML, or a config that breaks the rules.
    Config,
    /// An id in an overlay config whose parent item is missing.
    Overlay,
    /// An expression that uses unsupported syntax or functions.
    Outside,
    /// An expression that fails as in Python: a wrong type, an index out of range.
    Value,
    /// A missing file or folder.
    File,
    /// A class, function or option that is not known.
    Component,
    /// A device that this program or machine does not have.
    Device,
    /// A lambda that may fail depending on the tensor: an index beyond an axis, or shapes that do
    /// not fit. Only the tensor of a case decides.
    Tensor,
    /// A consequence of another fault: a value that this one needs could not be evaluated.
    Unresolved,
}

impl FaultKind {
    /// A short word for lists.
    pub fn word(self) -> &'static str {
        match self {
            FaultKind::Config | FaultKind::Overlay => "config",
            FaultKind::Outside => "expression",
            FaultKind::Value | FaultKind::Tensor | FaultKind::Unresolved => "value",
            FaultKind::File => "file",
            FaultKind::Component => "component",
            FaultKind::Device => "device",
        }
    }
}

/// An error in a config: file, id, text and description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of error.
    pub kind: FaultKind,
    /// The file that holds the item, if known.
    pub file: String,
    /// The id of the item; empty for a whole file.
    pub id: String,
    /// The text of the item, if it is a text; a long one is cut.
    pub text: String,
    /// The problem, and how to correct it.
    pub what: String,
}

impl Fault {
    /// Creates a fault without a place.
    pub fn new(kind: FaultKind, what: impl Into<String>) -> Self {
        Fault { kind, file: String::new(), id: String::new(), text: String::new(), what: what.into() }
    }

    /// Creates a fault at an item.
    pub fn at(kind: FaultKind, id: impl Into<String>, what: impl Into<String>) -> Self {
        Fault { id: id.into(), ..Fault::new(kind, what) }
    }

    /// The same fault about `value`. If that value could not be evaluated, the fault is a
    /// consequence ([`FaultKind::Unresolved`]).
    #[must_use]
    pub fn about(mut self, value: &Value) -> Self {
        if value.has_unknown() {
            self.kind = FaultKind::Unresolved;
        }
        self
    }

    /// Sets the file of the fault, unless it has one.
    #[must_use]
    pub fn in_file(mut self, file: &str) -> Self {
        if self.file.is_empty() {
            file.clone_into(&mut self.file);
        }
        self
    }

    /// Sets the item of the fault, unless it names an inner one.
    #[must_use]
    pub(crate) fn placed(mut self, id: &str, text: &str) -> Self {
        if self.id.is_empty() {
            id.clone_into(&mut self.id);
            self.text = beginning(text);
        }
        self
    }

    pub(crate) fn outside(what: impl Into<String>) -> Self {
        Fault::new(FaultKind::Outside, what)
    }

    pub(crate) fn value(what: impl Into<String>) -> Self {
        Fault::new(FaultKind::Value, what)
    }
}

/// The longest text of an item in a message, in characters.
const LONGEST: usize = 200;

fn beginning(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}: ", self.file)?;
        }
        if !self.id.is_empty() {
            write!(f, "{}: ", self.id)?;
        }
        if !self.text.is_empty() {
            write!(f, "{}: ", self.text)?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for Fault {}
