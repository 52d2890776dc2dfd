//! `--set key=value`: puts a value into the tree.

use super::document::{Entry, Node, Origin, Value};
use super::suggest;

/// The value of a `--set`: TOML where it is TOML (`3`, `0.5`, `true`, `[1, 2]`), a plain text otherwise.
pub(super) fn parse_value(text: &str, set: usize) -> Node {
    let parsed = toml::from_str::<toml::Table>(&format!("value = {text}")).ok().and_then(|mut t| t.remove("value"));
    from_value(parsed.unwrap_or_else(|| toml::Value::String(text.to_owned())), set)
}

fn from_value(value: toml::Value, set: usize) -> Node {
    let origin = Origin::Set(set);
    let value = match value {
        toml::Value::Array(items) => Value::List(items.into_iter().map(|item| from_value(item, set)).collect()),
        toml::Value::Table(table) => Value::Table(
            table
                .into_iter()
                .map(|(key, value)| Entry { key, origin: origin.clone(), node: from_value(value, set) })
                .collect(),
        ),
        leaf => Value::Leaf(leaf),
    };
    Node { origin, value }
}

/// Puts a value at a path of keys.
pub(super) fn assign(node: &mut Node, keys: &[&str], value: Node, set: usize) -> Result<(), String> {
    let Some((key, rest)) = keys.split_first() else {
        *node = value;
        return Ok(());
    };
    match &mut node.value {
        Value::Table(entries) => {
            if let Some(entry) = entries.iter_mut().find(|entry| entry.key == *key) {
                return assign(&mut entry.node, rest, value, set);
            }
            let mut made = Node { origin: Origin::Set(set), value: Value::Table(Vec::new()) };
            assign(&mut made, rest, value, set)?;
            entries.push(Entry { key: (*key).to_owned(), origin: Origin::Set(set), node: made });
            Ok(())
        }
        Value::List(items) => {
            let names: Vec<String> = items.iter().map(|item| item.text("name").unwrap_or("").to_owned()).collect();
            let index = match key.parse::<usize>() {
                Ok(index) if index < items.len() => index,
                Ok(index) => return Err(format!("there is no element {index}: the list has {}", items.len())),
                Err(_) => match names.iter().position(|name| name == key) {
                    Some(index) => index,
                    None => {
                        let known: Vec<&str> = names.iter().map(String::as_str).filter(|n| !n.is_empty()).collect();
                        return Err(suggest::unknown("name", key, &known));
                    }
                },
            };
            // The options of a plugin or handler are a table of their own; `plugins.checkpoint.keep_last` means that one.
            let item = &mut items[index];
            if let Some((first, _)) = rest.split_first()
                && item.get(first).is_none()
                && let Value::Table(entries) = &mut item.value
                && let Some(options) = entries.iter_mut().find(|entry| entry.key == "options")
            {
                return assign(&mut options.node, rest, value, set);
            }
            assign(item, rest, value, set)
        }
        Value::Leaf(leaf) => Err(format!("{key:?} cannot be inside the value {leaf}")),
    }
}
