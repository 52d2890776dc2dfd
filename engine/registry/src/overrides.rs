//! `--set key=value`: sets a value in the tree.

use crate::nearest::unknown;
use crate::node::{Field, Node, Origin, Value};

/// The value of a `--set`: TOML if it parses as TOML (`3`, `0.5`, `true`, `[1, 2]`), otherwise a
/// plain string.
pub(crate) fn parse_value(text: &str, origin: &Origin) -> Node {
    let parsed = toml::from_str::<toml::Table>(&format!("value = {text}")).ok().and_then(|mut t| t.remove("value"));
    Node::from_toml(parsed.unwrap_or_else(|| toml::Value::String(text.to_owned())), origin)
}

/// The name by which an element of a list is addressed: `as`, where several have the same `name`.
fn called(item: &Node) -> Option<&str> {
    item.text("as").or_else(|| item.text("name"))
}

/// Sets the value at a path of keys.
pub(crate) fn assign(node: &mut Node, keys: &[&str], value: Node, origin: &Origin) -> Result<(), String> {
    let Some((key, rest)) = keys.split_first() else {
        *node = value;
        return Ok(());
    };
    match &mut node.value {
        Value::Table(fields) => {
            if let Some(field) = fields.iter_mut().find(|field| field.key == *key) {
                return assign(&mut field.node, rest, value, origin);
            }
            let mut made = Node { origin: origin.clone(), value: Value::Table(Vec::new()) };
            assign(&mut made, rest, value, origin)?;
            fields.push(Field { key: (*key).to_owned(), origin: origin.clone(), node: made });
            Ok(())
        }
        Value::List(items) => {
            let names: Vec<String> = items.iter().map(|item| called(item).unwrap_or("").to_owned()).collect();
            let index = match key.parse::<usize>() {
                Ok(index) if index < items.len() => index,
                Ok(index) => return Err(format!("there is no element {index}: the list has {}", items.len())),
                Err(_) => match names.iter().position(|name| name == key) {
                    Some(index) => index,
                    None => {
                        let known: Vec<&str> = names.iter().map(String::as_str).filter(|n| !n.is_empty()).collect();
                        return Err(unknown("name", key, &known));
                    }
                },
            };
            // The options of a plugin are in their own table, which `plugins.checkpoint.keep_last`
            // refers to.
            let item = &mut items[index];
            if let Some((first, _)) = rest.split_first()
                && item.get(first).is_none()
                && let Some(options) = item.get_mut("options")
            {
                return assign(options, rest, value, origin);
            }
            assign(item, rest, value, origin)
        }
        Value::Leaf(leaf) => Err(format!("{key:?} cannot be inside the value {leaf}")),
        Value::Nothing => Err(format!("{key:?} cannot be inside nothing")),
    }
}
