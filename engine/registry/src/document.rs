//! [`Document`]: a recipe's text as a tree of nodes, where `--set` changes values.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::fault::Fault;
use crate::node::{Field, Node, Origin, Source, Value};
use crate::overrides::{assign, parse_value};
use crate::read::read;

/// Size limit of a recipe; larger files are refused.
const MAX_BYTES: u64 = 1 << 20;

/// A parsed recipe.
///
/// ```
/// use hearth_registry::{Document, Fault, Node};
/// let mut recipe = Document::parse("spleen.toml", "[training]\nepochs = 10\n")?;
/// recipe.set("training.epochs=3")?;
/// assert_eq!(*recipe.find("training.epochs"), Node::from(3_i64));
/// assert!(recipe.set("training.epochs").is_err()); // no value
/// # Ok::<(), Fault>(())
/// ```
#[derive(Clone, Debug)]
pub struct Document {
    source: Arc<Source>,
    root: Node,
}

impl Document {
    /// Reads a recipe file.
    ///
    /// # Errors
    /// When it cannot be read, is not text, is larger than a recipe can be, or is not TOML.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let shown = path.display();
        let unreadable = |error: std::io::Error| Fault::new(format!("cannot read recipe {shown}: {error}"));
        let facts = std::fs::metadata(path).map_err(unreadable)?;
        if facts.is_dir() {
            let inside = path.join("recipe.toml");
            let advice = if inside.is_file() { format!("; did you mean {}?", inside.display()) } else { String::new() };
            return Err(Fault::new(format!("{shown} is a folder, not a recipe{advice}")));
        }
        if !facts.is_file() {
            // A named pipe or a device might never end.
            return Err(Fault::new(format!("{shown} is a named pipe, a device or a socket; expected a regular file")));
        }
        if facts.len() > MAX_BYTES {
            let message = format!("{shown} has {} bytes; a recipe has at most {MAX_BYTES}", facts.len());
            return Err(Fault::new(message));
        }
        let text = std::fs::read(path).map_err(unreadable)?;
        let text = String::from_utf8(text)
            .map_err(|_| Fault::new(format!("{shown} is not a text file, so it is not a recipe")))?;
        Self::parse(shown.to_string(), text)
    }

    /// Parses a recipe's text; errors name it `name`.
    ///
    /// # Errors
    /// When it is not TOML, or contains a date or a number that does not fit.
    pub fn parse(name: impl Into<String>, text: impl Into<String>) -> Result<Self, Fault> {
        let text: String = text.into();
        // Editors on Windows may write a byte order mark.
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        let source = Arc::new(Source { name: name.into(), text });
        let root = match DeTable::parse(&source.text) {
            Ok(table) => {
                let span = table.span();
                convert_table(&source, table.get_ref(), span)?
            }
            Err(error) => {
                let origin = Origin::Text(source.clone(), error.span().unwrap_or(0..0));
                return Err(Fault { origin, ..Fault::new(error.message()) });
            }
        };
        Ok(Self { source, root })
    }

    /// The name that errors use.
    pub fn name(&self) -> &str {
        &self.source.name
    }

    /// Applies one `--set key=value`. The key is dotted; within a list of tables an element is
    /// named by its index (from 0) or by its `name`: `transforms.Spacing.pixdim=[1,1,1]`,
    /// `plugins.checkpoint.keep_last=2`. A new key may be added to a table; reading the recipe
    /// checks whether it is known.
    ///
    /// # Errors
    /// When it is not an assignment, or names an element that does not exist.
    pub fn set(&mut self, assignment: &str) -> Result<(), Fault> {
        let said = format!("--set {assignment}");
        match assignment.split_once('=') {
            Some((key, value)) => self.assign(said, key.trim(), value.trim()),
            None => Err(Fault::new(format!("{said}: expected key=value, like training.epochs=3"))),
        }
    }

    /// Applies an assignment of another command-line option, such as `--config`, to the table at
    /// `table`.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_in(&mut self, table: &str, option: &str, assignment: &str) -> Result<(), Fault> {
        let said = format!("{option} {assignment}");
        match assignment.split_once('=') {
            Some((key, value)) => self.assign(said, &format!("{table}.{}", key.trim()), value.trim()),
            None => Err(Fault::new(format!("{said}: expected key=value, like out_channels=3"))),
        }
    }

    /// Applies a command-line option that sets a key of the recipe, `--epochs 3`.
    ///
    /// # Errors
    /// When the key is inside a value that is not a table.
    pub fn set_option(&mut self, option: &str, key: &str, value: &str) -> Result<(), Fault> {
        self.assign(format!("{option} {value}"), key, value)
    }

    /// Adds an element to the end of the list at a path, in the words of a command-line option. The other
    /// elements keep their places in the text.
    ///
    /// # Errors
    /// When there is no list.
    pub fn push(&mut self, option: &str, path: &str, value: toml::Value) -> Result<(), Fault> {
        let origin = Origin::Set(option.into());
        let node = Node::from_toml(value, &origin);
        match self.root.find_mut(path).map(|list| &mut list.value) {
            Some(Value::List(items)) => items.push(node),
            _ => return Err(Fault { origin, ..Fault::new(format!("{path} is not a list")) }),
        }
        Ok(())
    }

    /// Sets a key of the table at a path, in the words of a command-line option. Unlike
    /// [`set_option`](Self::set_option) it never sets an option of a plugin.
    ///
    /// # Errors
    /// When there is no table.
    pub fn insert(&mut self, option: &str, path: &str, key: &str, value: toml::Value) -> Result<(), Fault> {
        let origin = Origin::Set(option.into());
        match self.root.find_mut(path) {
            Some(table) if table.is_table() => table.insert(key, Node::from_toml(value, &origin)),
            _ => return Err(Fault { origin, ..Fault::new(format!("{path} is not a table")) }),
        }
        Ok(())
    }

    /// Removes the elements of the list at a path that do not pass.
    pub fn retain(&mut self, path: &str, pass: impl Fn(&Node) -> bool) {
        if let Some(Value::List(items)) = self.root.find_mut(path).map(|list| &mut list.value) {
            items.retain(pass);
        }
    }

    fn assign(&mut self, said: String, key: &str, value: &str) -> Result<(), Fault> {
        let origin = Origin::Set(said.into());
        let value = parse_value(value, &origin);
        let keys: Vec<&str> = key.split('.').collect();
        let done = if keys.iter().any(|part| part.is_empty()) {
            Err("a part of the key is empty".to_owned())
        } else {
            assign(&mut self.root, &keys, value, &origin)
        };
        done.map_err(|message| Fault { origin, ..Fault::new(message) })
    }

    /// The tree.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The node at a path of keys and indices, as far as it exists.
    pub fn find(&self, path: &str) -> &Node {
        self.root.find(path)
    }

    /// Reads the whole tree into `T`.
    ///
    /// # Errors
    /// The first key that is invalid.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        read(&self.root)
    }

    /// A fault of the value at `path`, with its location.
    pub fn fault(&self, path: &str, message: impl Into<String>) -> Fault {
        Fault::at(path, message).within(&self.root)
    }

    /// Gives a fault of something built from the value at `path` its location.
    pub fn located(&self, path: &str, fault: Fault) -> Fault {
        fault.under(path).within(&self.root)
    }
}

fn convert_table(source: &Arc<Source>, table: &DeTable<'_>, span: Range<usize>) -> Result<Node, Fault> {
    let mut fields = Vec::with_capacity(table.len());
    for (key, value) in table.iter() {
        let origin = Origin::Text(source.clone(), key.span());
        fields.push(Field { key: key.get_ref().to_string(), origin, node: convert(source, value)? });
    }
    // The parser sorts tables by key; restore the file's order.
    fields.sort_by_key(|field| match &field.origin {
        Origin::Text(_, span) => span.start,
        _ => usize::MAX,
    });
    Ok(Node { origin: Origin::Text(source.clone(), span), value: Value::Table(fields) })
}

fn convert(source: &Arc<Source>, value: &Spanned<DeValue<'_>>) -> Result<Node, Fault> {
    let span = value.span();
    let origin = Origin::Text(source.clone(), span.clone());
    let wrong = |message: &str| Err(Fault { origin: origin.clone(), ..Fault::new(message) });
    let leaf = match value.get_ref() {
        DeValue::Table(table) => return convert_table(source, table, span),
        DeValue::Array(array) => {
            let items = array.iter().map(|item| convert(source, item)).collect::<Result<Vec<_>, _>>()?;
            return Ok(Node { origin, value: Value::List(items) });
        }
        DeValue::String(text) => toml::Value::String(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => toml::Value::Integer(number),
            Err(_) => return wrong("this number does not fit in 64 bits"),
        },
        DeValue::Float(number) => match number.as_str().parse() {
            Ok(number) => toml::Value::Float(number),
            Err(_) => return wrong("this is not a number"),
        },
        DeValue::Boolean(truth) => toml::Value::Boolean(*truth),
        DeValue::Datetime(_) => return wrong("a recipe has no dates; put it in quotes to make it a text"),
    };
    Ok(Node { origin, value: Value::Leaf(leaf) })
}
