//! Parses files to trees of values: JSON as in Python, YAML as in PyYAML's safe loader.

use std::fmt;
use std::path::Path;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::fault::{Fault, FaultKind};
use crate::yaml;

/// The largest config file in bytes.
const LARGEST: u64 = 64 << 20;

/// A tree of values, and its duplicate keys.
pub struct Tree {
    pub root: Value,
    pub twice: Vec<String>,
}

/// Reads a file; its extension gives the format.
pub fn read(path: &Path) -> Result<Tree, Fault> {
    let name = path.display().to_string();
    let fail = |kind: FaultKind, what: String| Fault::new(kind, what).in_file(&name);
    let size = std::fs::metadata(path).map_err(|error| fail(FaultKind::File, format!("cannot be read: {error}")))?;
    if size.len() > LARGEST {
        return Err(fail(FaultKind::Config, format!("has {} bytes; a config has at most {LARGEST}", size.len())));
    }
    let bytes = hearth_files::read(path).map_err(|error| fail(FaultKind::File, format!("cannot be read: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| fail(FaultKind::Config, "is not a text in UTF-8".to_owned()))?;
    parse(&name, &text)
}

/// Parses the text of a file; the extension of its name gives the format.
pub fn parse(name: &str, text: &str) -> Result<Tree, Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lower = name.to_ascii_lowercase();
    if lower.ends_with(".yaml") || lower.ends_with(".yml") {
        return yaml::parse(text).map_err(|what| Fault::new(FaultKind::Config, what).in_file(name));
    }
    if !lower.ends_with(".json") {
        let what = "is no config: its name must end in .json, .yaml or .yml";
        return Err(Fault::new(FaultKind::Config, what).in_file(name));
    }
    let mut twice = Vec::new();
    let mut from = serde_json::Deserializer::from_str(text);
    let read = Seed { twice: &mut twice, depth: 0 }.deserialize(&mut from);
    let root = read.and_then(|root| from.end().map(|()| root));
    let root = root.map_err(|error| {
        let what = format!("is not valid JSON: {error}");
        Fault::new(FaultKind::Config, what).in_file(name)
    })?;
    Ok(Tree { root, twice })
}

struct Seed<'a> {
    twice: &'a mut Vec<String>,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, truth: bool) -> Result<Value, E> {
        Ok(truth.into())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value, E> {
        match i64::try_from(number) {
            Ok(number) => Ok(number.into()),
            Err(_) => Err(E::custom(format!("{number} does not fit in 64 bits"))),
        }
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        let Seed { twice, depth } = self;
        while let Some(item) = items.next_element_seed(Seed { twice: &mut *twice, depth: depth + 1 })? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut table = Map::new();
        let Seed { twice, depth } = self;
        while let Some(key) = items.next_key::<String>()? {
            let value = items.next_value_seed(Seed { twice: &mut *twice, depth: depth + 1 })?;
            if table.insert(key.clone(), value).is_some() {
                twice.push(key);
            }
        }
        Ok(Value::Object(table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_two_keys_counts() {
        let tree = parse("a.json", r#"{"a": 1, "b": {"c": 2, "c": 3}, "a": 4}"#).expect("valid");
        assert_eq!(tree.root, serde_json::json!({"a": 4, "b": {"c": 3}}));
        assert_eq!(tree.twice, ["c", "a"]);
    }

    #[test]
    fn damaged_json_is_named_with_its_place() {
        let fault = parse("a.json", "{\"a\": [1, }").err().expect("damaged");
        assert!(fault.to_string().starts_with("a.json: is not valid JSON"), "{fault}");
        assert!(fault.to_string().contains("line 1"), "{fault}");
    }
}
