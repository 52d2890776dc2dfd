//! [`Fault`]: the problem of a value, and the place where it was written.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

use crate::node::{Node, Origin};

/// The reason why a recipe cannot be used: the key, the problem, the probable intent.
///
/// It prints as `recipe.toml:12:6: message` with the line below, or with the command-line argument
/// in place of file and line.
///
/// ```
/// use hearth_registry::{Document, Fault};
/// let recipe = Document::parse("spleen.toml", "epochs = 0")?;
/// let fault = recipe.fault("epochs", "`epochs` is 0; give 1 or more");
/// assert!(fault.to_string().starts_with("spleen.toml:1:10: `epochs` is 0; give 1 or more\n"));
/// // Without a recipe, as from the constructor of a component.
/// assert_eq!(Fault::at("groups.0.lr", "is negative").to_string(), "groups.0.lr: is negative");
/// # Ok::<(), Fault>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The dotted key, relative to the value that was being read: `groups.0.lr`. Empty for that
    /// value itself.
    pub path: String,
    /// The problem, and what is expected.
    pub message: String,
    /// The name that was probably meant.
    pub suggestion: Option<String>,
    /// The place where it was written, if known.
    pub origin: Origin,
}

impl Fault {
    /// A fault of the value as a whole.
    pub fn new(message: impl Into<String>) -> Self {
        Self { path: String::new(), message: message.into(), suggestion: None, origin: Origin::Unknown }
    }

    /// A fault of a key of the value.
    pub fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), ..Self::new(message) }
    }

    /// A fault of a node.
    pub fn on(node: &Node, message: impl Into<String>) -> Self {
        Self { origin: node.origin.clone(), ..Self::new(message) }
    }

    /// Adds the name that was probably meant.
    pub fn meaning(mut self, suggestion: Option<impl Into<String>>) -> Self {
        self.suggestion = suggestion.map(Into::into);
        self
    }

    /// The same fault as seen from a table that holds the value under `key`.
    pub fn under(mut self, key: &str) -> Self {
        self.path = match (key.is_empty(), self.path.is_empty()) {
            (true, _) => self.path,
            (_, true) => key.to_owned(),
            _ => format!("{key}.{}", self.path),
        };
        self
    }

    /// Finds the location of the path, relative to the given node, unless it is already known.
    /// Points at the value of the key; if the key was not written, at the deepest part of the path
    /// that was.
    pub fn within(mut self, node: &Node) -> Self {
        if self.origin.is_unknown() {
            self.origin = node.find(&self.path).origin.clone();
        }
        self
    }

    /// Like [`within`](Self::within), but points at the key rather than its value.
    pub fn at_key_within(mut self, node: &Node) -> Self {
        if self.origin.is_unknown() {
            self.origin = node.origin_of_key(&self.path).clone();
        }
        self
    }

    /// The message with its suggestion, without the location.
    pub fn text(&self) -> String {
        match &self.suggestion {
            Some(meant) => format!("{}, did you mean {meant:?}?", self.message),
            None => self.message.clone(),
        }
    }
}

thread_local! {
    /// A fault that passes through serde, whose errors hold only strings.
    static HANDED: RefCell<Option<Fault>> = const { RefCell::new(None) };
}

impl Fault {
    /// Keeps the fault for [`taken`](Self::taken), which is then called with its text.
    fn hand_over(self) {
        HANDED.with(|handed| *handed.borrow_mut() = Some(self));
    }

    /// The fault as a serde error, for a custom `Deserialize`. Reading a recipe recovers the
    /// complete fault with its location.
    pub fn through_serde<E: serde::de::Error>(self) -> E {
        let text = self.to_string();
        self.hand_over();
        E::custom(text)
    }

    /// The fault that was handed over, if its text is this one.
    pub(crate) fn taken(text: &str) -> Option<Fault> {
        let fault = HANDED.with(|handed| handed.borrow_mut().take())?;
        (fault.to_string() == text).then_some(fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        match &self.origin {
            Origin::Text(source, span) => f.write_str(&point(&source.name, &source.text, span.clone(), &text)),
            Origin::Set(words) => write!(f, "{words}: {text}"),
            Origin::Unknown if self.path.is_empty() => f.write_str(&text),
            Origin::Unknown => write!(f, "{}: {text}", self.path),
        }
    }
}

impl std::error::Error for Fault {}

/// Formats `file:line:column: message` and the line, with the location underlined.
fn point(name: &str, text: &str, span: Range<usize>, message: &str) -> String {
    let start = span.start.min(text.len());
    let before = &text[..start];
    let line_number = before.matches('\n').count() + 1;
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    let column = text[line_start..start].chars().count();
    let line = text[line_start..].lines().next().unwrap_or("");
    let room = line.chars().count().saturating_sub(column);
    let width =
        text.get(span).map_or(1, |inside| inside.lines().next().unwrap_or("").chars().count()).clamp(1, room.max(1));
    let gutter = line_number.to_string();
    let blank = " ".repeat(gutter.len());
    format!(
        "{name}:{line_number}:{}: {message}\n{gutter} | {line}\n{blank} | {}{}",
        column + 1,
        " ".repeat(column),
        "^".repeat(width)
    )
}
