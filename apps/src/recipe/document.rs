//! A recipe as text with positions: the tree every error points into.

use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::overrides::{assign, parse_value};
use super::read::{Kind, NodeReader, ReadError};
use crate::error::{Context, Failure, Outcome};

/// Recipes are pages, not books; anything larger is another kind of file.
const MAX_BYTES: u64 = 1 << 20;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// At these bytes of the recipe.
    Text(Range<usize>),
    /// In this `--set` or option of the command line.
    Set(usize),
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where.
    pub origin: Origin,
    /// What.
    pub value: Value,
}

/// What a recipe is made of.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string, number or truth value.
    Leaf(toml::Value),
    /// A list, or an array of tables.
    List(Vec<Node>),
    /// A table, in the order of the file.
    Table(Vec<Entry>),
}

/// A key of a table.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key was written.
    pub origin: Origin,
    /// Its value.
    pub node: Node,
}

/// A parsed recipe: its name, its text, and the tree.
#[derive(Clone, Debug)]
pub struct Document {
    name: String,
    text: String,
    sets: Vec<String>,
    root: Node,
}

impl Document {
    /// Reads a recipe file.
    pub fn open(path: &Path) -> Outcome<Self> {
        let size = std::fs::metadata(path).while_doing(|| format!("cannot read recipe {}", path.display()))?;
        if size.is_dir() {
            let inside = path.join("recipe.toml");
            let advice = if inside.is_file() { format!("; did you mean {}?", inside.display()) } else { String::new() };
            return Err(Failure::new(format!("{} is a folder, not a recipe{advice}", path.display())));
        }
        if size.len() > MAX_BYTES {
            return Err(Failure::new(format!(
                "{} has {} bytes; a recipe has at most {MAX_BYTES}",
                path.display(),
                size.len()
            )));
        }
        let text = std::fs::read(path).while_doing(|| format!("cannot read recipe {}", path.display()))?;
        let text = String::from_utf8(text)
            .map_err(|_| Failure::new(format!("{} is not a text file, so it is no recipe", path.display())))?;
        Self::parse(path.display().to_string(), text)
    }

    /// Reads a recipe's text; `name` is what errors call it.
    pub fn parse(name: impl Into<String>, text: impl Into<String>) -> Outcome<Self> {
        let (name, text) = (name.into(), text.into());
        // An editor on Windows may have put a byte order mark in front.
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        let root = match DeTable::parse(&text) {
            Ok(table) => {
                let span = table.span();
                convert_table(table.get_ref(), span)
            }
            Err(error) => {
                let span = error.span().unwrap_or(0..0);
                return Err(Failure::new(point(&name, &text, span, error.message())));
            }
        };
        let root = root.map_err(|(span, message)| Failure::new(point(&name, &text, span, &message)))?;
        Ok(Self { name, text, sets: Vec::new(), root })
    }

    /// The name errors use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Applies one `--set key=value`. The key is dotted; within a list of tables an element is named by its position
    /// (from 0) or by its `name`: `transforms.Spacing.pixdim=[1,1,1]`, `plugins.checkpoint.keep_last=2`.
    /// A new key may be added to a table; whether it is known is decided when the recipe is read.
    pub fn set(&mut self, assignment: &str) -> Outcome {
        let said = format!("--set {assignment}");
        match assignment.split_once('=') {
            Some((key, value)) => self.assign(said, key.trim(), value.trim()),
            None => Err(Failure::new(format!("{said}: expected key=value, like training.epochs=3"))),
        }
    }

    /// Applies an option of the command line that stands for a key of the recipe, `--epochs 3`.
    pub fn set_option(&mut self, option: &str, key: &str, value: &str) -> Outcome {
        self.assign(format!("{option} {value}"), key, value)
    }

    /// Applies one `--config key=value` to the table at `table`.
    pub fn set_config(&mut self, table: &str, assignment: &str) -> Outcome {
        let said = format!("--config {assignment}");
        match assignment.split_once('=') {
            Some((key, value)) => self.assign(said, &format!("{table}.{}", key.trim()), value.trim()),
            None => Err(Failure::new(format!("{said}: expected key=value, like out_channels=3"))),
        }
    }

    fn assign(&mut self, said: String, key: &str, value: &str) -> Outcome {
        let index = self.sets.len();
        let value = parse_value(value, index);
        let keys: Vec<&str> = key.split('.').collect();
        let done = if keys.iter().any(|part| part.is_empty()) {
            Err("a part of the key is empty".to_owned())
        } else {
            assign(&mut self.root, &keys, value, index)
        };
        let done = done.map_err(|message| Failure::new(format!("{said}: {message}")));
        self.sets.push(said);
        done
    }

    /// The tree.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The node at a path of keys and positions, as far as it exists.
    pub fn find(&self, path: &str) -> &Node {
        let mut node = &self.root;
        for part in path.split('.') {
            node = match &node.value {
                Value::Table(entries) => match entries.iter().find(|entry| entry.key == part) {
                    Some(entry) => &entry.node,
                    None => return node,
                },
                Value::List(items) => match part.parse::<usize>().ok().and_then(|i| items.get(i)) {
                    Some(item) => item,
                    None => return node,
                },
                Value::Leaf(_) => return node,
            };
        }
        node
    }

    /// Reads the whole tree into `T`; errors say where and what was meant.
    pub fn read<T: DeserializeOwned>(&self) -> Outcome<T> {
        read_node(&self.root).map_err(|error| self.explain(error, &self.root))
    }

    /// Reads the node at `path` into `T`.
    pub fn read_at<T: DeserializeOwned>(&self, path: &str) -> Outcome<T> {
        let node = self.find(path);
        read_node(node).map_err(|error| self.explain(error, node))
    }

    /// An error about the node at `path`.
    pub fn error_at(&self, path: &str, message: impl AsRef<str>) -> Failure {
        self.error(&self.find(path).origin, message)
    }

    /// An error about the table at `path`, whose message quotes the key it is about in backticks: points at that key.
    pub fn error_at_quoted(&self, path: &str, message: &str) -> Failure {
        let node = self.find(path);
        let quoted = message.split('`').skip(1).step_by(2);
        let key = quoted.filter_map(|word| node.entries().iter().find(|entry| entry.key == word)).next();
        self.error(key.map_or(&node.origin, |entry| &entry.origin), message)
    }

    /// An error about what was written there: `recipe.toml:12:5: message`, with the line.
    pub fn error(&self, origin: &Origin, message: impl AsRef<str>) -> Failure {
        Failure::new(match origin {
            Origin::Text(span) => point(&self.name, &self.text, span.clone(), message.as_ref()),
            Origin::Set(index) => format!("{}: {}", self.sets[*index], message.as_ref()),
        })
    }

    fn explain(&self, error: ReadError, whole: &Node) -> Failure {
        let origin = error.origin.clone().unwrap_or_else(|| whole.origin.clone());
        self.error(&origin, error.text())
    }
}

/// Reads a node; where serde only knows the table (a tagged enum), the key at fault is searched for.
fn read_node<T: DeserializeOwned>(node: &Node) -> Result<T, ReadError> {
    T::deserialize(NodeReader::new(node)).map_err(|error| refine::<T>(error, node))
}

/// A derived tagged enum buffers its table before it reads it, so its errors only know the table. This finds the key:
/// by its name for an unknown key, by its text for an unknown word, and else by reading again without each key in
/// turn: the one without which the error changes is at fault.
fn refine<T: DeserializeOwned>(mut error: ReadError, node: &Node) -> ReadError {
    let Some(at) = error.origin.clone() else { return error };
    let Some(entries) = table_at(node, &at) else { return error };
    let found = match &error.kind {
        Kind::UnknownKey { key, .. } => entries.iter().find(|entry| entry.key == *key).map(|e| e.origin.clone()),
        Kind::UnknownWord { word, .. } => entries
            .iter()
            .find(|entry| matches!(&entry.node.value, Value::Leaf(toml::Value::String(text)) if text == word))
            .map(|entry| entry.node.origin.clone()),
        Kind::MissingKey(_) => None,
        Kind::Other(_) => entries
            .iter()
            // Without its tag nothing can be read, so the tag is never at fault here.
            .filter(|entry| entry.key != "name")
            .find(|entry| {
                let mut without = node.clone();
                remove(&mut without, &at, &entry.key);
                match T::deserialize(NodeReader::new(&without)) {
                    Ok(_) => true,
                    Err(other) => other.origin.as_ref() != Some(&at) || other.text() != error.text(),
                }
            })
            .map(|entry| entry.node.origin.clone()),
    };
    if let Some(found) = found {
        error.origin = Some(found);
    }
    error
}

fn remove(node: &mut Node, table: &Origin, key: &str) {
    let found = node.origin == *table;
    match &mut node.value {
        Value::Table(entries) if found => entries.retain(|entry| entry.key != key),
        Value::Table(entries) => entries.iter_mut().for_each(|entry| remove(&mut entry.node, table, key)),
        Value::List(items) => items.iter_mut().for_each(|item| remove(item, table, key)),
        Value::Leaf(_) => {}
    }
}

fn table_at<'a>(node: &'a Node, origin: &Origin) -> Option<&'a [Entry]> {
    match &node.value {
        Value::Table(entries) if node.origin == *origin => Some(entries),
        Value::Table(entries) => entries.iter().find_map(|entry| table_at(&entry.node, origin)),
        Value::List(items) => items.iter().find_map(|item| table_at(item, origin)),
        Value::Leaf(_) => None,
    }
}

/// `file:line:column: message`, and the line with a mark under the place.
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

type Misread = (Range<usize>, String);

fn convert_table(table: &DeTable<'_>, span: Range<usize>) -> Result<Node, Misread> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table.iter() {
        entries.push(Entry { key: key.get_ref().to_string(), origin: Origin::Text(key.span()), node: convert(value)? });
    }
    // Tables come sorted by key; the file's own order reads better.
    entries.sort_by_key(|entry| match &entry.origin {
        Origin::Text(span) => span.start,
        Origin::Set(_) => usize::MAX,
    });
    Ok(Node { origin: Origin::Text(span), value: Value::Table(entries) })
}

fn convert(value: &Spanned<DeValue<'_>>) -> Result<Node, Misread> {
    let span = value.span();
    let leaf = match value.get_ref() {
        DeValue::Table(table) => return convert_table(table, span),
        DeValue::Array(array) => {
            let items = array.iter().map(convert).collect::<Result<Vec<_>, _>>()?;
            return Ok(Node { origin: Origin::Text(span), value: Value::List(items) });
        }
        DeValue::String(text) => toml::Value::String(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => toml::Value::Integer(number),
            Err(_) => return Err((span, "this number does not fit in 64 bits".into())),
        },
        DeValue::Float(number) => match number.as_str().parse() {
            Ok(number) => toml::Value::Float(number),
            Err(_) => return Err((span, "this is not a number".into())),
        },
        DeValue::Boolean(truth) => toml::Value::Boolean(*truth),
        DeValue::Datetime(_) => return Err((span, "a recipe has no dates; put it in quotes to make it a text".into())),
    };
    Ok(Node { origin: Origin::Text(span), value: Value::Leaf(leaf) })
}

impl Node {
    /// The entries, when this is a table.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The elements, when this is a list.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// Whether this is a list without elements.
    pub fn is_empty_list(&self) -> bool {
        matches!(&self.value, Value::List(items) if items.is_empty())
    }

    /// The value of a key, when this is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Table(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node),
            _ => None,
        }
    }

    /// The text of a key.
    pub fn text(&self, key: &str) -> Option<&str> {
        match &self.get(key)?.value {
            Value::Leaf(toml::Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// The same without positions.
    pub fn to_toml(&self) -> toml::Value {
        match &self.value {
            Value::Leaf(leaf) => leaf.clone(),
            Value::List(items) => toml::Value::Array(items.iter().map(Node::to_toml).collect()),
            Value::Table(entries) => {
                toml::Value::Table(entries.iter().map(|entry| (entry.key.clone(), entry.node.to_toml())).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(tag = "name", deny_unknown_fields)]
    #[allow(dead_code)]
    enum Shape {
        Circle {
            radius: f64,
        },
        Square {
            side: f64,
            #[serde(default)]
            turned: bool,
        },
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Page {
        title: String,
        shape: Shape,
        #[serde(default)]
        sizes: Vec<u32>,
    }

    const GOOD: &str = "title = \"t\"\nsizes = [1, 2]\n[shape]\nname = \"Circle\"\nradius = 2\n";

    fn fails(text: &str) -> String {
        match Document::parse("page.toml", text).and_then(|page| page.read::<Page>()) {
            Ok(page) => panic!("{text} reads as {page:?}"),
            Err(failure) => failure.line(),
        }
    }

    #[test]
    fn a_good_page_reads() {
        let page: Page =
            Document::parse("page.toml", GOOD).and_then(|page| page.read()).unwrap_or_else(|f| panic!("{}", f.line()));
        assert!(matches!(page.shape, Shape::Circle { radius } if radius == 2.0));
    }

    #[test]
    fn every_error_points_to_its_place() {
        let cases = [
            (
                "titel = \"t\"\n[shape]\nname = \"Circle\"\nradius = 2",
                "page.toml:1:1: unknown key \"titel\", did you mean \"title\"?",
            ),
            ("title = 3", "page.toml:1:9: expected a string, not integer `3`"),
            ("title = \"t\"\nsizes = [1, \"x\"]", "page.toml:2:13: expected u32, not string \"x\""),
            (
                "title = \"t\"\n[shape]\nname = \"Circel\"",
                "page.toml:3:8: unknown name \"Circel\", did you mean \"Circle\"?",
            ),
            (
                "title = \"t\"\n[shape]\nname = \"Circle\"\nradios = 1",
                "page.toml:4:1: unknown key \"radios\", did you mean \"radius\"?",
            ),
            (
                "title = \"t\"\n[shape]\nname = \"Square\"\nside = 1\nturned = 3",
                "page.toml:5:10: expected a boolean, not integer `3`",
            ),
            ("title = \"t\"\n[shape]\nname = \"Circle\"", "page.toml:2:1: the key \"radius\" is missing"),
            ("title = = 3", "page.toml:1:9:"),
            ("title = \"ü\"\n\"é\" = 1979-05-27", "page.toml:2:7: a recipe has no dates"),
        ];
        for (text, expected) in cases {
            let got = fails(text);
            assert!(got.starts_with(expected), "{text:?}\n gives    {got}\n expected {expected}");
        }
        assert_eq!(
            fails("title = \"t\"\nsizs = [1]\n"),
            "page.toml:2:1: unknown key \"sizs\", did you mean \"sizes\"?\n2 | sizs = [1]\n  | ^^^^"
        );
    }

    #[test]
    fn sets_are_typed_and_say_what_they_do_not_find() {
        let mut page = Document::parse("page.toml", GOOD).unwrap_or_else(|f| panic!("{}", f.line()));
        let mut set = |text: &str| page.set(text).map_err(|failure| failure.line());
        assert_eq!(set("shape.radius=0.5"), Ok(()));
        assert_eq!(set("title=plain words"), Ok(()));
        assert_eq!(set("sizes=[7, 8]"), Ok(()));
        assert!(set("nothing").is_err_and(|e| e.contains("expected key=value")));
        assert!(set("sizes.9=1").is_err_and(|e| e.contains("the list has 2")));
        assert!(set("title.x=1").is_err_and(|e| e.contains("cannot be inside")));
        let read: Page = page.read().unwrap_or_else(|f| panic!("{}", f.line()));
        assert!(matches!(read.shape, Shape::Circle { radius } if radius == 0.5));
        assert_eq!((read.title.as_str(), read.sizes.as_slice()), ("plain words", [7, 8].as_slice()));
        page.set("shape.radius=wide").unwrap_or_else(|f| panic!("{}", f.line()));
        let failure = page.read::<Page>().map(|_| ()).map_err(|f| f.line());
        assert_eq!(failure, Err("--set shape.radius=wide: expected f64, not string \"wide\"".into()));
    }
}
