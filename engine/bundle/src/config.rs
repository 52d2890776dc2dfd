//! [`Config`]: files merged, overrides, macros and relative ids.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::fault::{Fault, FaultKind};
use crate::id::{self, SEP};
use crate::syntax::literal;
use crate::tree;

/// A config: its items by id, and notes from loading it.
#[derive(Clone, Debug)]
pub struct Config {
    root: Value,
    /// Ids that a file set, in order. The last one that is a prefix of an id names the id's file.
    origins: Vec<(String, String)>,
    notes: Vec<String>,
    /// The folder against which file names in macros are resolved.
    folder: PathBuf,
}

impl Config {
    /// Merges files in order. Keys of later files are ids, and a key with `+` merges into the
    /// existing item. File names in macros are relative to `folder`.
    ///
    /// # Errors
    /// A file that cannot be read or is not a dictionary; an id whose parent is missing; `+` on
    /// values that cannot be merged.
    pub fn load(files: &[PathBuf], folder: &Path) -> Result<Self, Fault> {
        let mut config = Config::empty(folder);
        for file in files {
            let name = file.strip_prefix(folder).unwrap_or(file).display().to_string();
            let tree = tree::read(file).map_err(|fault| Fault { file: name.clone(), ..fault })?;
            config.add(&name, tree)?;
        }
        Ok(config)
    }

    /// Parses a config from a string; the extension of `name` gives the format.
    ///
    /// # Errors
    /// Same as [`load`](Self::load).
    pub fn parse(name: &str, text: &str) -> Result<Self, Fault> {
        let mut config = Config::empty(Path::new("."));
        config.add(name, tree::parse(name, text)?)?;
        Ok(config)
    }

    fn empty(folder: &Path) -> Self {
        let (origins, notes) = (Vec::new(), Vec::new());
        Config { root: Value::Object(Map::new()), origins, notes, folder: folder.to_owned() }
    }

    fn add(&mut self, name: &str, tree: tree::Tree) -> Result<(), Fault> {
        for key in tree.twice {
            self.notes.push(format!("{name}: the key {key:?} is duplicated; the last value is used"));
        }
        let Value::Object(table) = tree.root else {
            return Err(Fault::new(FaultKind::Overlay, "is no dictionary of items").in_file(name));
        };
        let first = self.root.as_object().is_some_and(Map::is_empty);
        for (key, value) in table {
            let set = match key.strip_prefix('+') {
                Some(key) => self.merge(key, value, name),
                None if first => self.insert_top(&key, value),
                None => self.set(&key, value),
            };
            set.map_err(|fault| fault.in_file(name))?;
            self.origins.push((id::normal(key.trim_start_matches('+')), name.to_owned()));
        }
        Ok(())
    }

    fn insert_top(&mut self, key: &str, value: Value) -> Result<(), Fault> {
        if id::normal(key).contains(SEP) {
            return self.set(key, value);
        }
        if let Some(table) = self.root.as_object_mut() {
            table.insert(key.to_owned(), value);
        }
        Ok(())
    }

    /// Sets an item whose parent exists.
    ///
    /// # Errors
    /// A missing parent, or an index beyond the end of a list.
    pub fn set(&mut self, key: &str, value: Value) -> Result<(), Fault> {
        let id = id::normal(key);
        if id.is_empty() {
            self.root = value;
            return Ok(());
        }
        let (parent, last) = id.rsplit_once(SEP).unwrap_or(("", &id));
        let missing = |what: String| Fault::at(FaultKind::Config, id.clone(), what);
        let Some(place) = id::find_mut(&mut self.root, parent) else {
            let what = format!("cannot be set: the config has no item {parent}");
            return Err(Fault::at(FaultKind::Overlay, id.clone(), what));
        };
        match place {
            Value::Object(table) => {
                table.insert(last.to_owned(), value);
                Ok(())
            }
            Value::Array(list) => {
                let len = list.len();
                match id::index(last, len).and_then(|at| list.get_mut(at)) {
                    Some(item) => {
                        *item = value;
                        Ok(())
                    }
                    None => Err(missing(format!("cannot be set: {parent} is a list of {len}"))),
                }
            }
            _ => Err(missing(format!("cannot be set: {parent} is neither a dictionary nor a list"))),
        }
    }

    fn merge(&mut self, key: &str, value: Value, file: &str) -> Result<(), Fault> {
        let id = id::normal(key);
        let Some(place) = id::find_mut(&mut self.root, &id) else {
            self.notes.push(format!("{file}: +{id} has no item to merge into: the item is set"));
            return self.set(&id, value);
        };
        match (place, value) {
            (Value::Object(into), Value::Object(table)) => into.extend(table),
            (Value::Array(into), Value::Array(list)) => into.extend(list),
            (place, value) => {
                let what = format!("+ cannot merge {} into {}", kind(&value), kind(place));
                return Err(Fault::at(FaultKind::Config, id, what));
            }
        }
        Ok(())
    }

    /// Sets an item as the command line does: the value is parsed as a Python literal, or else
    /// taken as a string. `None` leaves the item unchanged.
    ///
    /// # Errors
    /// Same as [`set`](Self::set).
    pub fn set_from_text(&mut self, key: &str, text: &str) -> Result<(), Fault> {
        let value = literal(text);
        if value.is_null() {
            return Ok(());
        }
        self.set(key, value).map_err(|fault| fault.in_file("the command line"))?;
        self.origins.push((id::normal(key), "the command line".to_owned()));
        Ok(())
    }

    /// Sets the metadata of the bundle as the item `_meta_`.
    pub fn set_metadata(&mut self, metadata: Value) {
        if let Some(table) = self.root.as_object_mut() {
            table.insert("_meta_".to_owned(), metadata);
        }
    }

    /// The unresolved item of an id.
    pub fn item(&self, key: &str) -> Option<&Value> {
        id::find(&self.root, &id::normal(key))
    }

    /// Whether the config has this item.
    pub fn has(&self, key: &str) -> bool {
        self.item(key).is_some()
    }

    /// The root of the config.
    pub fn root(&self) -> &Value {
        &self.root
    }

    /// The ids of the top level.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.root.as_object().into_iter().flat_map(|table| table.keys().map(String::as_str))
    }

    /// Notes from loading: duplicate keys, and merges into missing items.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The file that holds an item.
    pub fn file_of(&self, id: &str) -> &str {
        let has = |set: &str| id == set || id.strip_prefix(set).is_some_and(|rest| rest.starts_with(SEP));
        self.origins.iter().rev().find(|(set, _)| has(set)).map_or("", |(_, file)| file)
    }

    /// Expands macros, relative ids and the older separator once, top down.
    ///
    /// # Errors
    /// A macro that refers to a missing item, or a relative id beyond the root.
    pub(crate) fn expand(&mut self) -> Result<(), Fault> {
        self.expand_item("", &mut 0)
    }

    /// Expands an item. `copied` counts the values that macros have copied so far.
    fn expand_item(&mut self, at: &str, copied: &mut usize) -> Result<(), Fault> {
        let parts: Vec<String> = match id::find(&self.root, at) {
            Some(Value::Object(table)) => table.keys().cloned().collect(),
            Some(Value::Array(list)) => (0..list.len()).map(|place| place.to_string()).collect(),
            Some(Value::String(text)) => {
                let text = text.clone();
                let expanded = self.expand_text(&text, at).and_then(|value| {
                    let above = at.split(SEP).count();
                    // A string without a macro stays as it was.
                    match value.is_string() || within_limits(&value, above, copied) {
                        true => Ok(value),
                        false => {
                            let what =
                                format!("makes more than {MOST_COPIED} values, or is more than {DEEPEST} levels deep");
                            Err(Fault::new(FaultKind::Config, format!("the macro {what}")))
                        }
                    }
                });
                let value = expanded.map_err(|fault| {
                    let file = self.file_of(at).to_owned();
                    fault.placed(at, &text).in_file(&file)
                })?;
                if let Some(place) = id::find_mut(&mut self.root, at) {
                    *place = value;
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        // A key that contains the separator cannot be part of an id, nor can an empty key: at the
        // root it would refer to the root itself.
        let plain = |part: &String| !part.is_empty() && !part.contains(SEP);
        parts.iter().filter(|part| plain(part)).try_for_each(|part| self.expand_item(&id::join(at, part), copied))
    }

    fn expand_text(&self, text: &str, at: &str) -> Result<Value, Fault> {
        let text = id::absolute(&id::normal(text), at).map_err(|what| Fault::new(FaultKind::Config, what))?;
        let Some(named) = text.strip_prefix('%') else { return Ok(Value::String(text)) };
        let (file, id) = split_file(named);
        let nothing = |what: String| Fault::new(FaultKind::Config, what);
        if file.is_empty() {
            let found = id::find(&self.root, id).cloned();
            return found.ok_or_else(|| nothing(format!("the macro names {id}, which the config does not have")));
        }
        let path = self.folder.join(file);
        let tree = tree::read(&path).map_err(|fault| Fault {
            file: String::new(),
            what: format!("{file} {}", fault.what),
            ..fault
        })?;
        id::find(&tree.root, id).cloned().ok_or_else(|| nothing(format!("{file} has no item {id}")))
    }
}

/// The largest number of values that macros may copy. It stops a config whose macros double its size.
const MOST_COPIED: usize = 1_000_000;

/// The largest nesting depth of lists and dictionaries.
const DEEPEST: usize = 200;

/// Whether a value may be copied to a place below `above` levels.
fn within_limits(value: &Value, above: usize, copied: &mut usize) -> bool {
    *copied += 1;
    let inner = |value: &Value, copied: &mut usize| within_limits(value, above + 1, copied);
    above <= DEEPEST
        && *copied <= MOST_COPIED
        && match value {
            Value::Object(table) => table.values().all(|value| inner(value, copied)),
            Value::Array(list) => list.iter().all(|value| inner(value, copied)),
            _ => true,
        }
}

/// Splits `file.json::id` into file and id, either of which may be missing.
fn split_file(named: &str) -> (&str, &str) {
    let lower = named.to_ascii_lowercase();
    let end = [".json", ".yaml", ".yml"].iter().filter_map(|ending| Some(lower.rfind(ending)? + ending.len())).max();
    match end {
        Some(end) => (&named[..end], named[end..].trim_start_matches(':')),
        None => ("", named),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a dictionary",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(first: &str, second: &str) -> Result<Config, Fault> {
        let mut config = Config::parse("a.json", first)?;
        config.add("b.json", tree::parse("b.json", second)?)?;
        Ok(config)
    }

    #[test]
    fn keys_of_later_files_are_ids() -> Result<(), Fault> {
        let first = r#"{"a": {"b": 1, "c": [1, 2]}, "l": [1]}"#;
        let config = merged(first, r#"{"a::b": 2, "a#c#1": {"x": 0}, "+l": [2], "+a": {"d": 4}, "n": 5}"#)?;
        assert_eq!(*config.root(), json!({"a": {"b": 2, "c": [1, {"x": 0}], "d": 4}, "l": [1, 2], "n": 5}));
        assert_eq!(
            (config.file_of("a::b"), config.file_of("a::c"), config.file_of("a::c::1")),
            ("b.json", "b.json", "b.json")
        );
        assert_eq!(config.file_of("zz"), "");
        for (second, part) in
            [(r#"{"x::y": 1}"#, "no item x"), (r#"{"l::3": 1}"#, "list of 1"), (r#"{"+a": [1]}"#, "merge")]
        {
            let fault = merged(first, second).expect_err("refused").to_string();
            assert!(fault.starts_with("b.json: ") && fault.contains(part), "{fault}");
        }
        Ok(())
    }

    #[test]
    fn overrides_are_python_literals_or_texts() -> Result<(), Fault> {
        let mut config = Config::parse("a.json", r#"{"a": {"b": 1}, "c": 0, "d": 1}"#)?;
        for (key, text) in [
            ("a#b", "[1, 2.5, 'x']"),
            ("c", "True"),
            ("d", "None"),
            ("e", "./a b"),
            ("f", "{'k': -1}"),
            ("g", "['$@a.run(@c, 1)']"),
        ] {
            config.set_from_text(key, text)?;
        }
        let wanted = json!({
            "a": {"b": [1, 2.5, "x"]}, "c": true, "d": 1, "e": "./a b", "f": {"k": -1}, "g": ["$@a.run(@c, 1)"]
        });
        assert_eq!(*config.root(), wanted);
        Ok(())
    }

    #[test]
    fn macros_copy_once_from_the_top_down() -> Result<(), Fault> {
        let text = r##"{"a": "%b", "b": "%c", "c": {"x": "@::y", "y": 3}, "d": "%b::x", "e": "#ff", "f": " %c"}"##;
        let mut config = Config::parse("a.json", text)?;
        config.expand()?;
        let c = json!({"x": "@c::y", "y": 3});
        // `a` got the text of `b` before that was replaced.
        let wanted = json!({"a": "%c", "b": {"x": "@::y", "y": 3}, "c": c, "d": "@::y", "e": "::ff", "f": " %c"});
        assert_eq!(*config.root(), wanted);
        let mut missing = Config::parse("a.json", r#"{"a": ["%zz"]}"#)?;
        let fault = missing.expand().expect_err("names nothing").to_string();
        assert_eq!(fault, "a.json: a::0: %zz: the macro names zz, which the config does not have");
        Ok(())
    }
}
