//! The number of cases that are kept: [`Rate`].

use std::borrow::Cow;
use std::fmt;

use hearth_registry::Fault;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The number of cases that are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// A fraction of the cases.
    Part(f64),
    /// As many as fit.
    Auto,
}

impl Default for Rate {
    fn default() -> Self {
        Rate::Part(1.0)
    }
}

impl Rate {
    /// The fraction that is tried.
    pub fn part(self) -> f64 {
        match self {
            Rate::Part(part) => part,
            Rate::Auto => 1.0,
        }
    }

    /// The number of the `cases` cases that are kept, at most `num`.
    pub(crate) fn kept(self, cases: usize, num: Option<usize>) -> usize {
        ((cases as f64 * self.part()) as usize).min(num.unwrap_or(usize::MAX))
    }

    pub(crate) fn check(self) -> Result<(), Fault> {
        match self {
            Rate::Part(part) if !(0.0..=1.0).contains(&part) => {
                Err(Fault::at("rate", format!("{part} is not a fraction; give 0 to 1, or \"auto\"")))
            }
            _ => Ok(()),
        }
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Rate::Part(part) => out.serialize_f64(*part),
            Rate::Auto => out.serialize_str("auto"),
        }
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct PartOrAuto;
        impl Visitor<'_> for PartOrAuto {
            type Value = Rate;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number from 0 to 1, or \"auto\"")
            }

            fn visit_f64<E: de::Error>(self, part: f64) -> Result<Rate, E> {
                Ok(Rate::Part(part))
            }

            fn visit_i64<E: de::Error>(self, part: i64) -> Result<Rate, E> {
                Ok(Rate::Part(part as f64))
            }

            fn visit_u64<E: de::Error>(self, part: u64) -> Result<Rate, E> {
                Ok(Rate::Part(part as f64))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Rate, E> {
                if word == "auto" { Ok(Rate::Auto) } else { Err(E::invalid_value(de::Unexpected::Str(word), &self)) }
            }
        }
        from.deserialize_any(PartOrAuto)
    }
}

impl JsonSchema for Rate {
    fn schema_name() -> Cow<'static, str> {
        "Rate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "number" }, { "enum": ["auto"] }] })
    }
}
