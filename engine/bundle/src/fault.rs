//! [`Fault`]: what is wrong with a config, and where.

use std::fmt;

use crate::value::Value;

/// What sort of thing is wrong or missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// A file that cannot be read as JSON or YAML, or a config that breaks the rules.
    Config,
    /// An id of a config that is laid over another, which has the item around it.
    Overlay,
    /// An expression that is outside of what is evaluated.
    Outside,
    /// An expression that fails as Python's would: a wrong type, an index that is not there.
    Value,
    /// A file or folder that is not there.
    File,
    /// A class or function that is not known, or an option of it.
    Component,
    /// A device that this program or machine does not have.
    Device,
    /// A lambda that the tensor it is called on may or may not allow: an index beyond an axis, shapes
    /// that do not fit. Only the tensor of a case decides.
    Tensor,
    /// A consequence of another fault: the value that it is about could not be evaluated.
    Unresolved,
}

impl FaultKind {
    /// A word for lists.
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

/// What is wrong with a config: file, id, the text there, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What sort.
    pub kind: FaultKind,
    /// The file that has it, where one is known.
    pub file: String,
    /// The id of the item; empty for a whole file.
    pub id: String,
    /// The text of the item, where it is one.
    pub text: String,
    /// What is wrong, and what to do.
    pub what: String,
}

impl Fault {
    /// A fault of no place yet.
    pub fn new(kind: FaultKind, what: impl Into<String>) -> Self {
        Fault { kind, file: String::new(), id: String::new(), text: String::new(), what: what.into() }
    }

    /// A fault in an item.
    pub fn at(kind: FaultKind, id: impl Into<String>, what: impl Into<String>) -> Self {
        Fault { id: id.into(), ..Fault::new(kind, what) }
    }

    /// The same about a value, which makes it a consequence ([`FaultKind::Unresolved`]) where that value
    /// could not be evaluated.
    #[must_use]
    pub fn about(mut self, value: &Value) -> Self {
        if value.has_unknown() {
            self.kind = FaultKind::Unresolved;
        }
        self
    }

    /// The same in this file.
    #[must_use]
    pub fn in_file(mut self, file: &str) -> Self {
        if self.file.is_empty() {
            file.clone_into(&mut self.file);
        }
        self
    }

    /// The same at an item, unless one inside of it is named already.
    #[must_use]
    pub(crate) fn placed(mut self, id: &str, text: &str) -> Self {
        if self.id.is_empty() {
            id.clone_into(&mut self.id);
            text.clone_into(&mut self.text);
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
