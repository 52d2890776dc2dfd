//! `monai.data.load_decathlon_datalist`.

use super::{Eval, World, files};
use crate::fault::{Fault, FaultKind};
use crate::value::{CallValue, Value};

/// Loads the list under a key. Its paths are joined with the base folder, or with the folder of the
/// list.
pub fn load(world: &World, given: &CallValue) -> Eval {
    let path = given.get(0, "data_list_file_path").and_then(Value::as_str);
    let path = path.ok_or_else(|| Fault::value("load_decathlon_datalist without a file"))?;
    let labels = given.get(1, "is_segmentation").and_then(Value::truth).unwrap_or(true);
    let key = given.get(2, "data_list_key").and_then(Value::as_str).unwrap_or("training");
    let base = match given.get(3, "base_dir") {
        Some(Value::None) | None => path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned(),
        Some(base) => base.as_str().ok_or_else(|| Fault::value("base_dir is no path"))?.to_owned(),
    };
    let list = files::read_json(world, path)?;
    let wrong = |what: String| Fault::new(FaultKind::File, format!("{path} {what}"));
    let items = list.key(key).ok_or_else(|| wrong(format!("has no list {key:?}")))?;
    let items = items.as_slice().ok_or_else(|| wrong(format!("has no list under {key:?}")))?;
    let mut cases = Vec::with_capacity(items.len());
    for item in items {
        let entries = match (item, key) {
            (Value::Dict(entries), _) => entries.to_vec(),
            // Test entries are often plain paths.
            (Value::Text(_), "test") => vec![(Value::text("image"), item.clone())],
            _ => return Err(wrong(format!("has {} in the list {key:?}; expected dictionaries", item.kind()))),
        };
        let joined = entries.into_iter().map(|(name, value)| {
            let surely = name.as_str() == Some("image") || (labels && name.as_str() == Some("label"));
            let value = resolved(world, &base, value, surely);
            (name, value)
        });
        cases.push(Value::Dict(joined.collect()));
    }
    Ok(Value::List(cases.into()))
}

/// Joins a path, or a list of paths, with the base. Paths under other keys are joined only if the
/// file exists.
fn resolved(world: &World, base: &str, value: Value, surely: bool) -> Value {
    let one = |text: &str| {
        let whole = normal(&files::join(base, text));
        if surely || world.path(&whole).exists() { whole } else { text.to_owned() }
    };
    match &value {
        Value::Text(text) => Value::text(one(text)),
        Value::List(items) if items.iter().all(|item| item.as_str().is_some()) => {
            Value::list(items.iter().filter_map(Value::as_str).map(|text| Value::text(one(text))))
        }
        _ => value,
    }
}

/// `os.path.normpath`.
fn normal(path: &str) -> String {
    let root = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match (part, parts.last()) {
            ("..", Some(last)) if *last != ".." => drop(parts.pop()),
            ("..", None) if root => {}
            _ => parts.push(part),
        }
    }
    match (root, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}
