//! Converts values of a config to the tables that registries read.

use std::sync::Arc;

use hearth_bundle::{Component, Fault, FaultKind, Value};
use hearth_registry::Node;
pub(crate) use hearth_registry::base_names;
use serde::Deserialize;

/// Creates a fault of a component.
pub(crate) fn fault(component: &Component, what: impl Into<String>) -> Fault {
    let text = component.target.clone();
    Fault { text, ..Fault::at(FaultKind::Component, component.id.clone(), what) }.in_file(&component.file)
}

/// The value of an argument as a table, a list, a text or a number.
pub(crate) fn node(value: &Value) -> Option<Node> {
    let json = plain(value)?;
    Node::deserialize(json).ok()
}

/// Converts to JSON: names of libraries become their last part, like MONAI's enumerations.
fn plain(value: &Value) -> Option<serde_json::Value> {
    match value {
        Value::Name(name) => {
            let dtype = hearth_bundle::dtype_name(value);
            Some(dtype.unwrap_or_else(|| name.rsplit('.').next().unwrap_or(name).to_lowercase()).into())
        }
        Value::Device(name) => Some((**name).into()),
        // Authors write booleans as texts, and Python treats any text as true.
        Value::Text(text) if matches!(&**text, "True" | "true") => Some(true.into()),
        Value::List(items) | Value::Tuple(items) | Value::Set(items) => {
            items.iter().map(plain).collect::<Option<Vec<_>>>().map(serde_json::Value::Array)
        }
        Value::Dict(entries) => {
            let entry = |(key, value): &(Value, Value)| Some((key.as_str()?.to_owned(), plain(value)?));
            entries.iter().map(entry).collect::<Option<serde_json::Map<_, _>>>().map(serde_json::Value::Object)
        }
        other => other.to_json(),
    }
}

/// The table of a component under a name, without the listed arguments. Arguments that are `None`
/// are kept if `nothing` is set.
pub(crate) fn table(component: &Component, name: &str, without: &[&str], nothing: bool) -> Result<Node, Fault> {
    let mut table = Node::named(name);
    for (key, value) in &component.args {
        if without.contains(&key.as_str()) || (!nothing && matches!(value, Value::None)) {
            continue;
        }
        let value = node(value).ok_or_else(|| {
            fault(component, format!("the option {key} is {}, which is not supported here", value.kind())).about(value)
        })?;
        table.insert(key, value);
    }
    Ok(table)
}

/// Reads an object that is not a registry entry from its table.
pub(crate) fn read<T: for<'de> Deserialize<'de>>(component: &Component, mut table: Node) -> Result<T, Fault> {
    table.remove("name");
    hearth_registry::read(&table).map_err(|error| fault(component, error.to_string()))
}

/// Whether a component is the dictionary form or the array form of one of these names.
pub(crate) fn is(component: &Component, names: &[&str]) -> bool {
    base_names(component.name()).iter().any(|base| names.contains(base))
}

/// The keys of a transform.
pub(crate) fn keys(component: &Component) -> Result<Vec<String>, Fault> {
    let given =
        component.get("keys").ok_or_else(|| fault(component, "has no `keys`; only the dictionary form is run"))?;
    let keys = texts(given).filter(|keys| !keys.is_empty());
    keys.ok_or_else(|| fault(component, "has `keys` that are no texts").about(given))
}

/// A text, or several.
pub(crate) fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Text(text) => Some(vec![text.to_string()]),
        other => other.as_slice()?.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
    }
}

/// The option for each of several keys: one value for all, or a list with one for each.
pub(crate) fn each<T>(
    component: &Component,
    name: &str,
    count: usize,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Vec<Option<T>>, Fault> {
    let Some(given) = component.get(name) else { return Ok((0..count).map(|_| None).collect()) };
    let one = |value: &Value| match value {
        Value::None => Ok(None),
        value => read(value).map(Some).ok_or_else(|| {
            fault(component, format!("the option {name} is {}, which is not supported here", value.kind())).about(value)
        }),
    };
    match given.as_slice() {
        Some(list) if list.len() == count => list.iter().map(one).collect(),
        Some(list) => Err(fault(component, format!("{name} has {} entries for {count} keys", list.len()))),
        None => (0..count).map(|_| one(given)).collect(),
    }
}

/// The components of a list, or a single component; `None` counts as empty.
pub(crate) fn components(value: Option<&Value>) -> Option<Vec<Arc<Component>>> {
    match value {
        None | Some(Value::None) => Some(Vec::new()),
        Some(Value::Component(component)) => Some(vec![component.clone()]),
        Some(other) => {
            let given = other.as_slice()?.iter().filter(|item| !matches!(item, Value::None));
            given.map(|item| item.as_component().cloned()).collect()
        }
    }
}
