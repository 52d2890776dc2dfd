//! How the parameters of a component are written for MONAI.

use hearth_data::Select;
use hearth_registry::{Fault, Registry};
use serde_json::{Map, Value, json};

/// How a parameter is written. Without a rule it keeps its name: MONAI has a parameter with this
/// name and meaning. Defaults are always written, because MONAI's may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// From one value per key, that of the image.
    EachKey,
    /// Same as `EachKey`, for interpolation on a grid: MONAI's word for `linear` and `trilinear` is
    /// `bilinear`.
    Grid,
    /// Same as `EachKey`, for PyTorch's interpolation, whose word depends on the number of axes.
    Axes,
    /// Same as `EachKey`, written only if true: PyTorch rejects false for `area` and `nearest`.
    WhenTrue,
    /// A comparison such as `> 0.5`, written as a function; `> 0` is MONAI's default.
    Comparison,
    /// The number of constant padding, which MONAI accepts for no other mode.
    Fill,
    /// A number, written without a fraction if it is an integer.
    Whole,
    /// Always written, as null if the recipe has no value, because MONAI has no default.
    OrNull,
    /// The key of the image; a bundle has no other key.
    Image,
    /// Without effect on images that both can read.
    NoEffect,
    /// MONAI has no such parameter: rejected unless it has this value, as JSON; `null` means that
    /// it is not given.
    Only(&'static str),
}

/// A component that MONAI has, with the parameters that are written differently.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The name here and in MONAI.
    pub name: &'static str,
    /// The rules of parameters that are written differently.
    pub rules: &'static [(&'static str, Rule)],
}

impl Row {
    /// A component with the same parameters in MONAI.
    pub const fn same(name: &'static str) -> Self {
        Row { name, rules: &[] }
    }

    /// A component with these exceptions.
    pub const fn of(name: &'static str, rules: &'static [(&'static str, Rule)]) -> Self {
        Row { name, rules }
    }

    /// The rule of a parameter.
    pub fn rule(&self, key: &str) -> Option<Rule> {
        self.rules.iter().find(|(known, _)| *known == key).map(|(_, rule)| *rule)
    }
}

/// The keys and axes of a component.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    /// The index of the image among the keys.
    pub place: usize,
    /// The number of keys.
    pub keys: usize,
    /// The number of axes of the network's images.
    pub dims: usize,
}

impl Scope {
    /// A single key.
    pub fn one(dims: usize) -> Self {
        Scope { place: 0, keys: 1, dims }
    }
}

/// Converts the parameters of a component for MONAI, from its table with all defaults.
///
/// # Errors
/// A parameter that MONAI does not have, with its key.
pub(super) fn parameters(row: &Row, table: &Map<String, Value>, scope: Scope) -> Result<Map<String, Value>, Fault> {
    let mut written = Map::new();
    for (key, value) in table {
        if let Some(value) = parameter(row, table, (key, value), scope)? {
            written.insert(key.clone(), value);
        }
    }
    for (key, _) in row.rules.iter().filter(|(_, rule)| *rule == Rule::OrNull) {
        written.entry((*key).to_owned()).or_insert(Value::Null);
    }
    Ok(written)
}

fn parameter(
    row: &Row,
    table: &Map<String, Value>,
    (key, value): (&str, &Value),
    scope: Scope,
) -> Result<Option<Value>, Fault> {
    let Some(rule) = row.rule(key) else { return Ok(Some(value.clone())) };
    let own = of_key(value, scope);
    let refused = |what: String| Err(Fault::at(key, format!("cannot be exported: {what}")));
    Ok(match rule {
        Rule::EachKey => Some(own),
        Rule::OrNull => Some(value.clone()),
        Rule::NoEffect => None,
        Rule::Grid => Some(match own.as_str() {
            Some("linear" | "trilinear") => json!("bilinear"),
            _ => own,
        }),
        Rule::Axes => Some(match (own.as_str(), scope.dims) {
            (Some("trilinear" | "linear"), 2) => json!("bilinear"),
            (Some("bilinear" | "linear"), 3) => json!("trilinear"),
            _ => own,
        }),
        Rule::WhenTrue => (own == json!(true)).then_some(own),
        Rule::Comparison => {
            let comparison = comparison(value).map_err(|fault| fault.under(key))?;
            (comparison != "> 0").then(|| json!(format!("$lambda x: x {comparison}")))
        }
        Rule::Fill => {
            let constant = table.get("mode").is_none_or(|mode| of_key(mode, scope) == json!("constant"));
            (constant && value.as_f64() != Some(0.0)).then(|| value.clone())
        }
        Rule::Whole => Some(match value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 1e15) {
            Some(number) => json!(number as i64),
            None => value.clone(),
        }),
        Rule::Image if value.as_str() == Some("image") => Some(value.clone()),
        Rule::Image => return refused(format!("{value} is no part of a bundle, which has the image alone")),
        Rule::Only(text) => {
            let only = serde_json::from_str::<Value>(text).unwrap_or_default();
            let same = *value == only || (value.is_number() && value.as_f64() == only.as_f64());
            if !same {
                let advice = if only.is_null() { "leave it out".to_owned() } else { format!("expected {only}") };
                return refused(format!("MONAI's {} has no such parameter; {advice}", row.name));
            }
            None
        }
    })
}

/// From a list with a value for each key, that of the image.
fn of_key(value: &Value, scope: Scope) -> Value {
    match value {
        Value::Array(items) if items.len() == scope.keys => {
            items.get(scope.place).cloned().unwrap_or_else(|| value.clone())
        }
        other => other.clone(),
    }
}

/// Converts a comparison to Python; a number alone means `>`.
fn comparison(value: &Value) -> Result<String, Fault> {
    let select: Select = serde_json::from_value(value.clone()).map_err(|error| Fault::new(error.to_string()))?;
    Ok(select.into())
}

/// A MONAI component: its class, the parameters in `first`, then the others.
pub(super) fn component(target: &str, first: &[(&str, Value)], rest: Map<String, Value>) -> Value {
    let mut all = Map::from_iter([("_target_".to_owned(), json!(target))]);
    all.extend(first.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    all.extend(rest);
    Value::Object(all)
}

/// The registered name for `written`, in any spelling that recipes may use.
pub(super) fn known_as<T: hearth_registry::Kind + ?Sized>(written: &str) -> Option<&'static str> {
    Registry::<T>::new().find(written).map(|entry| entry.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Row = Row::of(
        "CropForeground",
        &[
            ("source_key", Rule::Image),
            ("select_fn", Rule::Comparison),
            ("mode", Rule::EachKey),
            ("value", Rule::Fill),
            ("allow_empty", Rule::Only("false")),
            ("lower", Rule::OrNull),
            ("min_size", Rule::Whole),
        ],
    );

    fn written(table: Value) -> Result<Value, String> {
        let table = table.as_object().cloned().unwrap_or_default();
        let scope = Scope { place: 1, keys: 2, dims: 3 };
        parameters(&ROW, &table, scope).map(Value::Object).map_err(|fault| format!("{}: {}", fault.path, fault.message))
    }

    #[test]
    fn parameters_are_written_by_their_rules() {
        let table = json!({
            "source_key": "image", "select_fn": 2.5, "mode": ["edge", "constant"], "value": 3.0, "margin": 1,
            "allow_empty": false, "min_size": 64.0,
        });
        let expected = json!({
            "source_key": "image", "select_fn": "$lambda x: x > 2.5", "mode": "constant", "value": 3.0, "margin": 1,
            "min_size": 64, "lower": null,
        });
        assert_eq!(written(table), Ok(expected));
        // The other key's mode pads with the edge, which has no number.
        let edge = written(json!({ "mode": ["constant", "edge"], "value": 3.0 }));
        assert_eq!(edge, Ok(json!({ "mode": "edge", "lower": null })));
        let comparison = written(json!({ "select_fn": "<= 3" }));
        assert_eq!(comparison, Ok(json!({ "select_fn": "$lambda x: x <= 3", "lower": null })));
        assert_eq!(written(json!({ "select_fn": "> 0" })), Ok(json!({ "lower": null })));
    }

    #[test]
    fn what_monai_lacks_is_refused_by_its_key() {
        let refused = |table| written(table).expect_err("refused");
        assert!(refused(json!({ "allow_empty": true })).starts_with("allow_empty: "));
        assert!(refused(json!({ "source_key": "label" })).contains("the image alone"));
    }
}
