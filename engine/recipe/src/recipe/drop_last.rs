//! `training.drop_last`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Whether an incomplete last batch of an epoch is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropLast {
    /// Always, or never.
    Given(bool),
    /// A batch of a single crop, where the network has batch norms.
    Auto,
}

impl DropLast {
    /// Whether nothing is given.
    pub(super) fn is_auto(&self) -> bool {
        *self == DropLast::Auto
    }
}

impl Serialize for DropLast {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            DropLast::Given(given) => out.serialize_bool(*given),
            DropLast::Auto => out.serialize_str("auto"),
        }
    }
}

impl<'de> Deserialize<'de> for DropLast {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct GivenOrAuto;
        impl Visitor<'_> for GivenOrAuto {
            type Value = DropLast;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, or \"auto\"")
            }

            fn visit_bool<E: de::Error>(self, given: bool) -> Result<DropLast, E> {
                Ok(DropLast::Given(given))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<DropLast, E> {
                if word == "auto" {
                    Ok(DropLast::Auto)
                } else {
                    Err(E::invalid_value(de::Unexpected::Str(word), &self))
                }
            }
        }
        from.deserialize_any(GivenOrAuto)
    }
}

impl JsonSchema for DropLast {
    fn schema_name() -> Cow<'static, str> {
        "DropLast".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "boolean" }, { "enum": ["auto"] }] })
    }
}
