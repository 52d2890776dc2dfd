//! The parameters of an entry: names, types, defaults and meaning, read from its JSON Schema.

use schemars::Schema;
use serde_json::{Map, Value};

/// One parameter of an entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The key of the parameter in a recipe.
    pub name: String,
    /// A description of its type: `number`, `list of number`, `"bilinear" or "nearest"`.
    pub kind: String,
    /// The default in TOML; `None` if the parameter is required, or is optional without a default.
    pub default: Option<String>,
    /// Whether the parameter is required.
    pub required: bool,
    /// The description.
    pub doc: String,
}

impl Parameter {
    /// A key that the recipe itself reads.
    pub(crate) fn common([name, kind, default, doc]: &[&str; 4]) -> Self {
        let [name, kind, default, doc] = [name, kind, default, doc].map(|text| (*text).to_owned());
        Self { name, kind, default: Some(default), required: false, doc }
    }
}

/// The parameters of a schema, in the order of the fields. `setters` documents fields without
/// documentation.
pub fn parameters(schema: &Schema, setters: &[(&str, &str)]) -> Vec<Parameter> {
    let root = schema.as_value();
    let table = table(root);
    let required: Vec<&str> = table["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let none = Map::new();
    let properties = table["properties"].as_object().unwrap_or(&none);
    properties
        .iter()
        .map(|(name, property)| {
            let of_setter = || setters.iter().find(|(known, _)| known == name).map(|(_, doc)| doc.trim().to_owned());
            let doc = property["description"].as_str().map(str::to_owned).or_else(of_setter).unwrap_or_default();
            Parameter {
                name: name.clone(),
                kind: words(root, property),
                default: property.get("default").filter(|value| !value.is_null()).map(toml_words),
                required: required.contains(&name.as_str()),
                doc,
            }
        })
        .collect()
}

/// The table that a schema describes: a wrapper type refers to the schema of its inner type.
pub(crate) fn table(root: &Value) -> &Value {
    match root["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        Some(name) => &root["$defs"][name],
        None => root,
    }
}

/// A JSON value as inline TOML.
fn toml_words(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(toml_words).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| format!("{key} = {}", toml_words(value)))
                .collect();
            format!("{{ {} }}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// A description of a type.
fn words(root: &Value, schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        return words(root, &root["$defs"][name]);
    }
    if let Some(word) = schema.get("const") {
        return toml_words(word);
    }
    if let Some(choices) = schema["enum"].as_array() {
        return alternatives(choices.iter().filter(|word| !word.is_null()).map(toml_words));
    }
    for several in ["oneOf", "anyOf"] {
        if let Some(choices) = schema[several].as_array() {
            return alternatives(
                choices.iter().filter(|choice| choice["type"] != "null").map(|choice| words(root, choice)),
            );
        }
    }
    if let Some([one]) = schema["allOf"].as_array().map(Vec::as_slice) {
        return words(root, one);
    }
    let plain = |kind: &str| match kind {
        "array" => match &schema["items"] {
            Value::Null => match schema["prefixItems"].as_array() {
                Some(items) => {
                    format!("[{}]", items.iter().map(|item| words(root, item)).collect::<Vec<_>>().join(", "))
                }
                None => "list".to_owned(),
            },
            items => {
                let fixed = schema["minItems"].as_u64().filter(|least| schema["maxItems"].as_u64() == Some(*least));
                let count = fixed.map_or(String::new(), |count| format!("{count} "));
                format!("list of {count}{}", plural(&words(root, items)))
            }
        },
        "integer" => "whole number".to_owned(),
        "number" => "number".to_owned(),
        "boolean" => "true or false".to_owned(),
        "string" => "text".to_owned(),
        "object" => match schema["properties"].as_object() {
            Some(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(key, value)| format!("{key} = {}", words(root, value))).collect();
                format!("{{ {} }}", fields.join(", "))
            }
            None => "table".to_owned(),
        },
        other => other.to_owned(),
    };
    match &schema["type"] {
        Value::String(kind) => plain(kind),
        Value::Array(kinds) => alternatives(kinds.iter().filter_map(Value::as_str).filter(|k| *k != "null").map(plain)),
        _ => "any value".to_owned(),
    }
}

/// The plural of a type's description.
fn plural(kind: &str) -> String {
    match kind {
        "number" | "whole number" | "text" | "table" | "list" => format!("{kind}s"),
        _ => match kind.strip_prefix("list of ") {
            Some(inner) if !inner.contains(" or ") => format!("lists of {inner}"),
            None if !kind.contains(" or ") && !kind.contains(", ") => kind.to_owned(),
            _ => format!("({kind})"),
        },
    }
}

fn alternatives(choices: impl Iterator<Item = String>) -> String {
    let mut each: Vec<String> = Vec::new();
    for choice in choices {
        if !each.contains(&choice) {
            each.push(choice);
        }
    }
    // A value and a list of such values share one description.
    if each.len() > 1 {
        let last = each.len() - 1;
        let others = each[..last].join(" or ");
        if each[last] == format!("list of {}", plural(&others)) {
            return format!("{others}, or a list");
        }
    }
    each.join(" or ")
}
