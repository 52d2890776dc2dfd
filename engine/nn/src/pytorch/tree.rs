//! The content of a PyTorch file as a tree.

use std::collections::BTreeMap;
use std::sync::Arc;

use hearth_pickle::{Number, Object, Pickled, Tensor};
use serde_json::Value;

/// The limits on the nesting and on the number of values. A value that is referenced several times
/// is counted each time.
const DEEPEST: usize = 200;
const MOST: usize = 1 << 23;

/// A value of a file.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    /// Lists, tuples and sets.
    List(Vec<Tree>),
    /// Dictionaries; keys that are numbers are converted to text.
    Dict(BTreeMap<String, Tree>),
    Tensor(Arc<Tensor>),
    /// Bytes, or a Python object with the name of its type.
    Other(Option<String>),
}

impl Tree {
    /// Converts pickled data to a tree.
    pub fn of(pickled: &Pickled) -> Result<Self, String> {
        made(pickled, pickled.root(), 0, &mut 0)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Tree> {
        match self {
            Tree::Dict(entries) => entries.get(key),
            _ => None,
        }
    }

    /// Whether there is a tensor in this value or below.
    pub fn holds_tensors(&self) -> bool {
        match self {
            Tree::Dict(entries) => entries.values().any(Tree::holds_tensors),
            Tree::List(items) => items.iter().any(Tree::holds_tensors),
            value => matches!(value, Tree::Tensor(_)),
        }
    }

    /// Plain values as JSON; tensors and other objects are null.
    pub fn to_json(&self) -> Value {
        match self {
            Tree::Bool(value) => (*value).into(),
            Tree::Int(value) => (*value).into(),
            Tree::Float(value) => (*value).into(),
            Tree::Text(value) => value.as_str().into(),
            Tree::List(items) => items.iter().map(Tree::to_json).collect(),
            Tree::Dict(entries) => entries.iter().map(|(key, value)| (key.clone(), value.to_json())).collect(),
            Tree::None | Tree::Tensor(_) | Tree::Other(_) => Value::Null,
        }
    }

    /// The types of objects other than tensors, storages and plain values, sorted and without
    /// duplicates.
    pub fn objects(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found.sort_unstable();
        found.dedup();
        found
    }

    fn collect(&self, found: &mut Vec<String>) {
        match self {
            Tree::Dict(entries) => entries.values().for_each(|value| value.collect(found)),
            Tree::List(items) => items.iter().for_each(|value| value.collect(found)),
            Tree::Other(Some(name)) => found.push(name.clone()),
            _ => {}
        }
    }

    /// The tensors in this value and below, by their dotted paths. The names of list items are
    /// their indices.
    pub fn tensors(&self) -> Result<BTreeMap<String, Arc<Tensor>>, String> {
        let mut found = BTreeMap::new();
        self.gather(&mut String::new(), &mut found)?;
        Ok(found)
    }

    fn gather(&self, path: &mut String, found: &mut BTreeMap<String, Arc<Tensor>>) -> Result<(), String> {
        let mut below = |key: &str, value: &Tree| {
            let length = path.len();
            if length > 0 {
                path.push('.');
            }
            path.push_str(key);
            let gathered = value.gather(path, found);
            path.truncate(length);
            gathered
        };
        match self {
            Tree::Dict(entries) => entries.iter().try_for_each(|(key, value)| below(key, value)),
            Tree::List(items) => {
                items.iter().enumerate().try_for_each(|(index, value)| below(&index.to_string(), value))
            }
            Tree::Tensor(tensor) => match found.insert(path.clone(), tensor.clone()) {
                Some(_) => Err(format!("two tensors have the name {path}")),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

fn made(pickled: &Pickled, object: &Object, depth: usize, count: &mut usize) -> Result<Tree, String> {
    *count += 1;
    if *count > MOST {
        return Err(format!("it holds more than {MOST} values"));
    }
    if depth > DEEPEST {
        return Err(format!("its values are nested more than {DEEPEST} levels deep"));
    }
    let mut one = |place: u32| made(pickled, pickled.get(place), depth + 1, count);
    let named = |name: &str| Tree::Other(Some(name.to_owned()));
    Ok(match object {
        Object::None => Tree::None,
        Object::Number(Number::Bool(value)) => Tree::Bool(*value),
        Object::Number(Number::Int(value)) => Tree::Int(*value),
        Object::Number(Number::Float(value)) => Tree::Float(*value),
        Object::Text(text) => Tree::Text(text.to_string()),
        // Texts of Python 2.
        Object::Bytes(_) => object.text().map_or(Tree::Other(None), |text| Tree::Text(text.to_owned())),
        Object::Tuple(items) => Tree::List(items.iter().map(|item| one(*item)).collect::<Result<_, _>>()?),
        Object::List(items) | Object::Set(items) => {
            Tree::List(items.iter().map(|item| one(*item)).collect::<Result<_, _>>()?)
        }
        Object::Dict(entries) => {
            let mut dict = BTreeMap::new();
            for (key, value) in entries {
                let value = one(*value)?;
                match key_of(pickled.get(*key)) {
                    Some(key) => drop(dict.insert(key, value)),
                    None if value.holds_tensors() => {
                        return Err(format!("tensors have {} as their key", pickled.get(*key).kind()));
                    }
                    // A value whose key cannot be looked up.
                    None => {}
                }
            }
            Tree::Dict(dict)
        }
        Object::Tensor(tensor) => Tree::Tensor(tensor.clone()),
        // A storage is read together with its tensors.
        Object::Storage(_) => Tree::Other(None),
        Object::Name(name) => named(name),
        Object::Foreign(foreign) => named(&foreign.name),
        Object::Large(_) => named("int"),
        Object::Type(_) | Object::Hollow | Object::Array(_) => named("numpy.ndarray"),
    })
}

fn key_of(object: &Object) -> Option<String> {
    match object {
        Object::Number(Number::Int(key)) => Some(key.to_string()),
        Object::Number(Number::Float(key)) => Some(key.to_string()),
        Object::Number(Number::Bool(key)) => Some(if *key { "True" } else { "False" }.to_owned()),
        Object::None => Some("None".to_owned()),
        other => other.text().map(str::to_owned),
    }
}
