//! Reads a [`Node`] into Rust types, keeping the key and the location of every error.

use std::fmt::Display;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, Unexpected, VariantAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;

use crate::fault::Fault;
use crate::nearest::nearest;
use crate::node::{Field, NULL, Node, TOKEN, Value, hand_over};

/// Reads a value into `T`.
///
/// # Errors
/// The first key that is unknown, missing or of another type, with its path and its location.
pub fn read<T: DeserializeOwned>(node: &Node) -> Result<T, Fault> {
    T::deserialize(NodeReader { node })
}

impl de::Error for Fault {
    fn custom<T: Display>(message: T) -> Self {
        let text = message.to_string();
        Fault::taken(&text).unwrap_or_else(|| Fault::new(text))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        unknown_word("key", field, expected)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        unknown_word("word", variant, expected)
    }

    fn missing_field(field: &'static str) -> Self {
        Fault::new(format!("the key {field:?} is missing"))
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Fault::new(format!("expected {}, not {}", plain_words(&expected.to_string()), found(unexpected)))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::invalid_type(unexpected, expected)
    }

    fn invalid_length(length: usize, expected: &dyn de::Expected) -> Self {
        Fault::new(format!("expected {}, not {length} values", plain_words(&expected.to_string())))
    }
}

fn unknown_word(kind: &str, word: &str, known: &'static [&'static str]) -> Fault {
    let near = nearest(word, known.iter().copied());
    let list = match (near, known) {
        (None, [_, ..]) => format!("; known are {}", known.join(", ")),
        _ => String::new(),
    };
    Fault::new(format!("unknown {kind} {word:?}{list}")).meaning(near)
}

/// Serde's names of types, reworded for users who do not write Rust.
fn plain_words(expected: &str) -> String {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" | "u128" => "a whole number without a sign".into(),
        "i8" | "i16" | "i32" | "i64" | "isize" | "i128" => "a whole number".into(),
        "f32" | "f64" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a string" | "a borrowed string" | "path string" => "a text".into(),
        "a sequence" => "a list".into(),
        "a map" => "a table".into(),
        other => match other.strip_prefix("struct ").or_else(|| other.strip_prefix("internally tagged enum ")) {
            Some(_) => "a table".into(),
            None => match other.strip_prefix("an array of length ") {
                Some(length) => format!("a list of {length}"),
                None => other.into(),
            },
        },
    }
}

fn found(unexpected: Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Bool(truth) => truth.to_string(),
        Unexpected::Unsigned(number) => number.to_string(),
        Unexpected::Signed(number) => number.to_string(),
        Unexpected::Float(number) => format!("{number:?}"),
        Unexpected::Str(text) => format!("the text {text:?}"),
        Unexpected::Seq => "a list".into(),
        Unexpected::Map => "a table".into(),
        other => other.to_string(),
    }
}

struct NodeReader<'a> {
    node: &'a Node,
}

impl Fault {
    /// Keeps the innermost location that was known when the error occurred.
    fn or_on(mut self, node: &Node) -> Self {
        if self.origin.is_unknown() {
            self.origin = node.origin.clone();
        }
        self
    }
}

impl<'de> Deserializer<'de> for NodeReader<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Leaf(toml::Value::String(text)) => visitor.visit_borrowed_str(text),
            Value::Leaf(toml::Value::Integer(number)) => visitor.visit_i64(*number),
            Value::Leaf(toml::Value::Float(number)) => visitor.visit_f64(*number),
            Value::Leaf(toml::Value::Boolean(truth)) => visitor.visit_bool(*truth),
            Value::Leaf(other) => Err(de::Error::custom(format!("a {} has no place in a recipe", other.type_str()))),
            Value::List(items) => visitor.visit_seq(Items { items: items.iter(), place: 0 }),
            Value::Table(fields) => visitor.visit_map(Fields { fields: fields.iter(), value: None }),
            Value::Nothing => visitor.visit_unit(),
        }
        .map_err(|fault| fault.or_on(self.node))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Nothing => visitor.visit_none(),
            // TOML has no null.
            Value::Leaf(toml::Value::String(text)) if text == NULL => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Fault> {
        if name == TOKEN { hand_over(self.node, visitor) } else { visitor.visit_newtype_struct(self) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Leaf(toml::Value::String(word)) => visitor.visit_enum(StrDeserializer::<Fault>::new(word)),
            Value::Table(fields) if fields.len() == 1 => visitor.visit_enum(Variant { field: &fields[0] }),
            _ => Err(Fault::new(format!("expected one of {}, not {}", words.join(", "), self.node.kind()))),
        }
        .map_err(|fault: Fault| fault.or_on(self.node))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Items<'a> {
    items: std::slice::Iter<'a, Node>,
    place: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some(node) = self.items.next() else { return Ok(None) };
        self.place += 1;
        let named = |fault: Fault| fault.under(&(self.place - 1).to_string()).or_on(node);
        seed.deserialize(NodeReader { node }).map(Some).map_err(named)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Fields<'a> {
    fields: std::slice::Iter<'a, Field>,
    value: Option<&'a Field>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some(field) = self.fields.next() else { return Ok(None) };
        self.value = Some(field);
        let reader = StrDeserializer::<Fault>::new(&field.key);
        seed.deserialize(reader).map(Some).map_err(|mut fault| {
            fault.origin = field.origin.clone();
            fault.under(&field.key)
        })
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        match self.value.take() {
            Some(field) => seed
                .deserialize(NodeReader { node: &field.node })
                .map_err(|fault| fault.under(&field.key).or_on(&field.node)),
            None => Err(Fault::new("a value was read before its key")),
        }
    }
}

struct Variant<'a> {
    field: &'a Field,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Fault;
    type Variant = NodeReader<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, NodeReader<'de>), Fault> {
        let reader = StrDeserializer::<Fault>::new(&self.field.key);
        let value = seed.deserialize(reader).map_err(|mut fault: Fault| {
            fault.origin = self.field.origin.clone();
            fault
        })?;
        Ok((value, NodeReader { node: &self.field.node }))
    }
}

impl<'de> VariantAccess<'de> for NodeReader<'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        Err(Fault::on(self.node, "this choice takes no value"))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_any(visitor)
    }
}
