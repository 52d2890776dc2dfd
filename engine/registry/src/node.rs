//! [`Node`]: a value and the place where it was written.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use serde::de::{self, Deserializer, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

/// A text that values were read from.
#[derive(PartialEq, Eq)]
pub struct Source {
    /// The name in errors: that of a file.
    pub name: String,
    /// The whole text.
    pub text: String,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// The place where a value was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Unknown: the value is a default, or a program created it.
    #[default]
    Unknown,
    /// In these bytes of a text.
    Text(Arc<Source>, Range<usize>),
    /// In this command-line argument.
    Set(Arc<str>),
}

impl Origin {
    /// Whether the place is unknown.
    pub fn is_unknown(&self) -> bool {
        *self == Origin::Unknown
    }
}

/// The word for an explicitly missing optional value in TOML, which has no null. An empty text is a
/// value: for networks it means "no such layer".
pub(crate) const NULL: &str = "null";

/// A value and the place where it was written. Two nodes are equal if their values are equal; the
/// order of keys in tables does not matter.
///
/// ```
/// use hearth_registry::Node;
/// let table = Node::named("Flip").with("spatial_axis", 0_i64);
/// assert_eq!((table.text("name"), table.find("spatial_axis").kind()), (Some("Flip"), "a number"));
/// assert_eq!(table, Node::empty().with("spatial_axis", 0_i64).with("name", "Flip"));
/// ```
#[derive(Clone, Debug)]
pub struct Node {
    /// The place where it was written.
    pub origin: Origin,
    /// The value.
    pub value: Value,
}

/// A value of a recipe.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string, number or boolean.
    Leaf(toml::Value),
    /// A list, or an array of tables.
    List(Vec<Node>),
    /// A table, in the order of the file.
    Table(Vec<Field>),
    /// Explicitly nothing: null in JSON, the text `null` in TOML.
    Nothing,
}

/// A key of a table.
#[derive(Clone, Debug)]
pub struct Field {
    /// The key.
    pub key: String,
    /// Where the key was written.
    pub origin: Origin,
    /// The value under the key.
    pub node: Node,
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Leaf(this), Value::Leaf(other)) => this == other,
            (Value::List(these), Value::List(others)) => these == others,
            (Value::Table(these), Value::Table(others)) => {
                let same =
                    |field: &Field| others.iter().any(|other| field.key == other.key && field.node == other.node);
                these.len() == others.len() && these.iter().all(same)
            }
            (Value::Nothing, Value::Nothing) => true,
            _ => false,
        }
    }
}

impl Node {
    /// A table with only a `name`, as in a recipe that gives no parameters.
    pub fn named(name: &str) -> Self {
        Self::empty().with("name", name)
    }

    /// A table without keys.
    pub fn empty() -> Self {
        Self { origin: Origin::Unknown, value: Value::Table(Vec::new()) }
    }

    /// Sets a key of a table.
    pub fn with(mut self, key: &str, value: impl Into<Node>) -> Self {
        self.insert(key, value.into());
        self
    }

    /// The keys and values, when this is a table.
    pub fn fields(&self) -> &[Field] {
        match &self.value {
            Value::Table(fields) => fields,
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

    /// Whether this is a table.
    pub fn is_table(&self) -> bool {
        matches!(self.value, Value::Table(_))
    }

    /// The field with this key, when this is a table that has it.
    pub fn field(&self, key: &str) -> Option<&Field> {
        self.fields().iter().find(|field| field.key == key)
    }

    /// The value of a key, when this is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.field(key).map(|field| &field.node)
    }

    /// The value of a key, to change it, when this is a table that has it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        match &mut self.value {
            Value::Table(fields) => fields.iter_mut().find(|field| field.key == key).map(|field| &mut field.node),
            _ => None,
        }
    }

    /// The string under a key.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// The string, when this is one.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Leaf(toml::Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Sets a key of a table; a value that is not a table becomes one.
    pub fn insert(&mut self, key: &str, node: Node) {
        match &mut self.value {
            Value::Table(fields) => match fields.iter_mut().find(|field| field.key == key) {
                Some(field) => field.node = node,
                None => fields.push(Field { key: key.to_owned(), origin: node.origin.clone(), node }),
            },
            _ => {
                let field = Field { key: key.to_owned(), origin: node.origin.clone(), node };
                self.value = Value::Table(vec![field]);
            }
        }
    }

    /// Removes a key from a table.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        let Value::Table(fields) = &mut self.value else { return None };
        let place = fields.iter().position(|field| field.key == key)?;
        Some(fields.remove(place).node)
    }

    /// The node at a dotted path of keys and indices, as far as it exists.
    pub fn find(&self, path: &str) -> &Node {
        path.split('.')
            .filter(|part| !part.is_empty())
            .try_fold(self, |node, part| node.step(part).ok_or(node))
            .unwrap_or_else(|deepest| deepest)
    }

    /// The node at a dotted path of keys and indices, to change it.
    pub(crate) fn find_mut(&mut self, path: &str) -> Option<&mut Self> {
        path.split('.').filter(|part| !part.is_empty()).try_fold(self, |node, part| match &mut node.value {
            Value::List(items) => items.get_mut(part.parse::<usize>().ok()?),
            Value::Table(fields) => fields.iter_mut().find(|field| field.key == part).map(|field| &mut field.node),
            Value::Leaf(_) | Value::Nothing => None,
        })
    }

    /// Where the key at a dotted path was written, or the deepest part of the path that exists.
    pub(crate) fn origin_of_key(&self, path: &str) -> &Origin {
        let (parent, key) = path.rsplit_once('.').unwrap_or(("", path));
        match self.find(parent).field(key) {
            Some(field) if !field.origin.is_unknown() => &field.origin,
            _ => &self.find(path).origin,
        }
    }

    fn step(&self, part: &str) -> Option<&Node> {
        match &self.value {
            Value::Table(_) => self.get(part),
            Value::List(items) => items.get(part.parse::<usize>().ok()?),
            Value::Leaf(_) | Value::Nothing => None,
        }
    }

    /// A description of the kind of value.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Leaf(toml::Value::String(_)) => "a text",
            Value::Leaf(toml::Value::Boolean(_)) => "true or false",
            Value::Leaf(_) => "a number",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
            Value::Nothing => "nothing",
        }
    }

    /// The value without origins. A key that is explicitly nothing becomes the text `null`, which
    /// [`read`](crate::read) reads as nothing for an optional value.
    pub fn to_toml(&self) -> toml::Value {
        match &self.value {
            Value::Leaf(leaf) => leaf.clone(),
            Value::List(items) => toml::Value::Array(items.iter().map(Node::to_toml).collect()),
            Value::Table(fields) => {
                toml::Value::Table(fields.iter().map(|field| (field.key.clone(), field.node.to_toml())).collect())
            }
            Value::Nothing => toml::Value::String(NULL.to_owned()),
        }
    }

    /// Explicitly nothing.
    pub(crate) fn nothing() -> Self {
        Self { origin: Origin::Unknown, value: Value::Nothing }
    }

    /// Converts a TOML value to a node, with this origin throughout.
    pub fn from_toml(value: toml::Value, origin: &Origin) -> Self {
        let value = match value {
            toml::Value::Array(items) => {
                Value::List(items.into_iter().map(|item| Self::from_toml(item, origin)).collect())
            }
            toml::Value::Table(table) => Value::Table(
                table
                    .into_iter()
                    .map(|(key, value)| Field { key, origin: origin.clone(), node: Self::from_toml(value, origin) })
                    .collect(),
            ),
            leaf => Value::Leaf(leaf),
        };
        Node { origin: origin.clone(), value }
    }
}

impl<T: Into<toml::Value>> From<T> for Node {
    fn from(value: T) -> Self {
        Self::from_toml(value.into(), &Origin::Unknown)
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            Value::Leaf(leaf) => leaf.serialize(out),
            Value::List(items) => out.collect_seq(items),
            Value::Table(fields) => out.collect_map(fields.iter().map(|field| (&field.key, &field.node))),
            Value::Nothing => out.serialize_str(NULL),
        }
    }
}

/// The name by which [`read`](crate::read) recognizes that a node is requested.
pub(crate) const TOKEN: &str = "$hearth_registry::Node";

thread_local! {
    /// A node that passes through serde, whose data model has no origins.
    static HANDED: RefCell<Option<Node>> = const { RefCell::new(None) };
}

/// Passes a node to the visitor of [`Node`]'s own `Deserialize`.
pub(crate) fn hand_over<'de, V: Visitor<'de>, E: de::Error>(node: &Node, visitor: V) -> Result<V::Value, E> {
    HANDED.with(|handed| *handed.borrow_mut() = Some(node.clone()));
    visitor.visit_unit()
}

/// Builds a node from a self-describing format.
struct Plain;

impl<'de> Visitor<'de> for Plain {
    type Value = Node;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Node, E> {
        Ok(Node::nothing())
    }

    fn visit_none<E: de::Error>(self) -> Result<Node, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
        from.deserialize_any(self)
    }

    fn visit_bool<E: de::Error>(self, truth: bool) -> Result<Node, E> {
        Ok(Node::from(truth))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Node, E> {
        Ok(Node::from(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Node, E> {
        i64::try_from(number).map(Node::from).map_err(|_| E::custom(format!("{number} does not fit in 64 bits")))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Node, E> {
        Ok(Node::from(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Node, E> {
        Ok(Node::from(text))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(PlainSeed)? {
            list.push(item);
        }
        Ok(Node { origin: Origin::Unknown, value: Value::List(list) })
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut table = Node::empty();
        while let Some(key) = map.next_key::<String>()? {
            table.insert(&key, map.next_value_seed(PlainSeed)?);
        }
        Ok(table)
    }
}

struct PlainSeed;

impl<'de> de::DeserializeSeed<'de> for PlainSeed {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
        from.deserialize_any(Plain)
    }
}

/// A node that [`read`](crate::read) reads keeps its origins; other deserializers yield a node
/// without origins.
impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Node;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("any value")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Node, E> {
                HANDED.with(|handed| handed.borrow_mut().take()).ok_or_else(|| E::custom("a value is missing"))
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
                from.deserialize_any(Plain)
            }
        }
        from.deserialize_newtype_struct(TOKEN, Any)
    }
}

/// A parameter that is itself a named component: the transform within a `Range`, the loss within
/// another loss.
#[cfg(feature = "entries")]
impl schemars::JsonSchema for Node {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Table".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "object", "title": "table" })
    }
}
