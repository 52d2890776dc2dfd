//! Reads the tree of a recipe into Rust types, keeping the place of every error.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::document::{Entry, Node, Origin, Value};
use super::suggest;

/// Why a value could not be read, and where it is.
#[derive(Debug)]
pub struct ReadError {
    /// The innermost place known.
    pub origin: Option<Origin>,
    /// What is wrong.
    pub kind: Kind,
}

/// What is wrong with a value.
#[derive(Debug)]
pub enum Kind {
    /// A key that nothing reads.
    UnknownKey {
        /// As written.
        key: String,
        /// What there is.
        known: &'static [&'static str],
    },
    /// A word that is none of the choices.
    UnknownWord {
        /// As written.
        word: String,
        /// What there is.
        known: &'static [&'static str],
    },
    /// A key that must be there.
    MissingKey(&'static str),
    /// Anything else, in words.
    Other(String),
}

impl ReadError {
    /// The message, with a suggestion.
    pub fn text(&self) -> String {
        match &self.kind {
            Kind::UnknownKey { key, known } => suggest::unknown("key", key, known),
            Kind::UnknownWord { word, known } => suggest::unknown("name", word, known),
            Kind::MissingKey(key) => format!("the key {key:?} is missing"),
            Kind::Other(message) => message.clone(),
        }
    }

    fn at(mut self, origin: &Origin) -> Self {
        self.origin.get_or_insert_with(|| origin.clone());
        self
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl std::error::Error for ReadError {}

impl de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { origin: None, kind: Kind::Other(message.to_string()) }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self { origin: None, kind: Kind::UnknownKey { key: field.to_owned(), known: expected } }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self { origin: None, kind: Kind::UnknownWord { word: variant.to_owned(), known: expected } }
    }

    fn missing_field(field: &'static str) -> Self {
        Self { origin: None, kind: Kind::MissingKey(field) }
    }

    fn invalid_type(unexpected: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::custom(format!("expected {expected}, not {unexpected}"))
    }

    fn invalid_value(unexpected: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::custom(format!("expected {expected}, not {unexpected}"))
    }
}

/// A serde deserializer over a [`Node`].
pub struct NodeReader<'a> {
    node: &'a Node,
}

impl<'a> NodeReader<'a> {
    /// Reads this node.
    pub fn new(node: &'a Node) -> Self {
        Self { node }
    }
}

impl<'de> Deserializer<'de> for NodeReader<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.node.value {
            Value::Leaf(toml::Value::String(text)) => visitor.visit_borrowed_str(text),
            Value::Leaf(toml::Value::Integer(number)) => visitor.visit_i64(*number),
            Value::Leaf(toml::Value::Float(number)) => visitor.visit_f64(*number),
            Value::Leaf(toml::Value::Boolean(truth)) => visitor.visit_bool(*truth),
            Value::Leaf(other) => Err(de::Error::custom(format!("a {} has no place in a recipe", other.type_str()))),
            Value::List(items) => visitor.visit_seq(Items { items: items.iter() }),
            Value::Table(entries) => visitor.visit_map(Entries { entries: entries.iter(), value: None }),
        }
        .map_err(|error| error.at(&self.node.origin))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let origin = &self.node.origin;
        match &self.node.value {
            Value::Leaf(toml::Value::String(word)) => visitor.visit_enum(StrDeserializer::<ReadError>::new(word)),
            Value::Table(entries) if entries.len() == 1 => visitor.visit_enum(Variant { entry: &entries[0] }),
            _ => Err(de::Error::custom("expected one word, or a table with one key")),
        }
        .map_err(|error| error.at(origin))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Items<'a> {
    items: std::slice::Iter<'a, Node>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        let read = |node: &'de Node| seed.deserialize(NodeReader { node }).map_err(|error| error.at(&node.origin));
        self.items.next().map(read).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Entries<'a> {
    entries: std::slice::Iter<'a, Entry>,
    value: Option<&'a Node>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        let Some(entry) = self.entries.next() else { return Ok(None) };
        self.value = Some(&entry.node);
        let reader = StrDeserializer::<ReadError>::new(&entry.key);
        seed.deserialize(reader).map(Some).map_err(|error| error.at(&entry.origin))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, ReadError> {
        match self.value.take() {
            // A tagged enum reports errors after it has left its table: the place is added here too.
            Some(node) => seed.deserialize(NodeReader { node }).map_err(|error| error.at(&node.origin)),
            None => Err(de::Error::custom("a value was read before its key")),
        }
    }
}

struct Variant<'a> {
    entry: &'a Entry,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = ReadError;
    type Variant = NodeReader<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, NodeReader<'de>), ReadError> {
        let reader = StrDeserializer::<ReadError>::new(&self.entry.key);
        let value = seed.deserialize(reader).map_err(|error: ReadError| error.at(&self.entry.origin))?;
        Ok((value, NodeReader { node: &self.entry.node }))
    }
}

impl<'de> VariantAccess<'de> for NodeReader<'de> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        Err(ReadError {
            origin: Some(self.node.origin.clone()),
            kind: Kind::Other("this choice takes no value".into()),
        })
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ReadError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_any(visitor)
    }
}
