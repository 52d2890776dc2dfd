//! What a pickle holds, and the values that are made of it.

use std::sync::Arc;

use crate::value::{CallValue, Value};

/// The place of an object in the list of all.
pub(super) type Place = usize;

/// How deep values may be nested.
const DEEPEST: usize = 60;

/// How many values a file may give to an expression.
const MOST_VALUES: usize = 2_000_000;

/// A number of Python's or NumPy's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Bool(bool),
    Int(i64),
    Float(f64),
}

impl Number {
    fn value(self) -> Value {
        match self {
            Number::Bool(truth) => Value::Bool(truth),
            Number::Int(number) => Value::Int(number),
            Number::Float(number) => Value::Float(number),
        }
    }
}

/// An array, row-major.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub shape: Vec<usize>,
    pub values: Vec<Number>,
}

/// An object of a pickle.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    None,
    Number(Number),
    /// A whole number of more than 64 bits.
    Large(Vec<u8>),
    Text(String),
    Bytes(Vec<u8>),
    Tuple(Vec<Place>),
    List(Vec<Place>),
    Set(Vec<Place>),
    Dict(Vec<(Place, Place)>),
    /// A function or class.
    Name(String),
    /// A type of numbers: `f`, `i`, `u` or `b`, bytes, and whether the first byte is the highest.
    Type {
        kind: char,
        size: usize,
        big: bool,
    },
    /// An array that has no values yet.
    Hollow,
    Array(Array),
    /// What a function of this name would give, and that is not read.
    Foreign(String),
}

impl Object {
    /// About how many bytes it takes.
    pub fn bytes(&self) -> usize {
        let more = match self {
            Object::Text(text) | Object::Name(text) | Object::Foreign(text) => text.len(),
            Object::Bytes(bytes) | Object::Large(bytes) => bytes.len(),
            Object::Tuple(items) | Object::List(items) | Object::Set(items) => size_of_val(&items[..]),
            Object::Dict(entries) => size_of_val(&entries[..]),
            Object::Array(array) => size_of_val(&array.shape[..]) + size_of_val(&array.values[..]),
            Object::None | Object::Number(_) | Object::Type { .. } | Object::Hollow => 0,
        };
        size_of::<Object>() + more
    }

    /// The kind of object, for messages.
    pub fn kind(&self) -> String {
        match self {
            Object::None => "None".to_owned(),
            Object::Number(_) | Object::Large(_) => "a number".to_owned(),
            Object::Text(_) => "a text".to_owned(),
            Object::Bytes(_) => "bytes".to_owned(),
            Object::Tuple(_) => "a tuple".to_owned(),
            Object::List(_) => "a list".to_owned(),
            Object::Set(_) => "a set".to_owned(),
            Object::Dict(_) => "a dictionary".to_owned(),
            Object::Name(name) | Object::Foreign(name) => name.clone(),
            Object::Type { .. } => "a type of numbers".to_owned(),
            Object::Hollow | Object::Array(_) => "an array".to_owned(),
        }
    }
}

/// All objects of a pickle.
#[derive(Debug)]
pub(crate) struct Pickled {
    pub(super) objects: Vec<Object>,
    pub(super) root: Place,
}

impl Pickled {
    /// The whole number that this is, little-endian.
    pub fn whole(&self) -> Option<Vec<u8>> {
        match &self.objects[self.root] {
            Object::Number(Number::Int(number)) => Some(number.to_le_bytes().to_vec()),
            Object::Large(bytes) => Some(bytes.clone()),
            _ => None,
        }
    }

    /// As a value, and how many values that has. Arrays are nested columns, so operators work on their
    /// elements; what is not read (a tensor, a type) is a call that fails where it is used.
    ///
    /// # Errors
    /// Values that are nested too deeply, or too many: one that stands in many places is one for each.
    pub fn value(&self) -> Result<(Value, usize), String> {
        let mut count = 0;
        let value = self.made(self.root, 0, &mut count)?;
        Ok((value, count))
    }

    fn made(&self, place: Place, depth: usize, count: &mut usize) -> Result<Value, String> {
        *count += match &self.objects[place] {
            Object::Array(array) => array.values.len().max(1),
            _ => 1,
        };
        if *count > MOST_VALUES {
            return Err(format!("it holds more than {MOST_VALUES} values"));
        }
        if depth > DEEPEST {
            return Err(format!("its values are nested more than {DEEPEST} levels deep"));
        }
        let mut all = |items: &[Place]| -> Result<Vec<Value>, String> {
            items.iter().map(|item| self.made(*item, depth + 1, count)).collect()
        };
        let foreign = |name: &str| {
            Value::Call(Arc::new(CallValue { name: name.to_owned(), args: Vec::new(), named: Vec::new() }))
        };
        Ok(match &self.objects[place] {
            Object::None => Value::None,
            Object::Number(number) => number.value(),
            Object::Text(text) => Value::text(text),
            // Python 2's texts.
            Object::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Value::text(text),
                Err(_) => foreign("bytes"),
            },
            Object::Tuple(items) => Value::Tuple(all(items)?.into()),
            Object::List(items) => Value::List(all(items)?.into()),
            Object::Set(items) => Value::Set(all(items)?.into()),
            Object::Dict(entries) => {
                let mut made: Vec<(Value, Value)> = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    made.push((self.made(*key, depth + 1, count)?, self.made(*value, depth + 1, count)?));
                }
                Value::Dict(made.into())
            }
            Object::Array(array) => nested(&array.shape, &array.values),
            Object::Name(name) | Object::Foreign(name) => foreign(name),
            Object::Large(_) => foreign("int"),
            Object::Type { .. } => foreign("numpy.dtype"),
            Object::Hollow => foreign("numpy.ndarray"),
        })
    }
}

/// An array as columns of columns; one without axes is its number.
fn nested(shape: &[usize], values: &[Number]) -> Value {
    let Some((count, rest)) = shape.split_first() else {
        return values.first().map_or(Value::None, |number| number.value());
    };
    let each: usize = rest.iter().product();
    let part = |place: usize| nested(rest, &values[place * each..(place + 1) * each]);
    Value::Column((0..*count).map(part).collect())
}
