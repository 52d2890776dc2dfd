//! Converts a pickle to a value of an expression.

use std::sync::Arc;

use hearth_pickle::{Array, Number, Object, Pickled};

use crate::value::{CallValue, Value};

/// The largest nesting depth of values.
const DEEPEST: usize = 60;

/// The largest number of values that a file may give to an expression.
const MOST_VALUES: usize = 2_000_000;

/// Converts a pickled object to a value, and counts its values. Arrays become nested columns, so
/// operators work on their elements; an object that is not read (a tensor, a type) becomes a call
/// that fails where it is used.
///
/// # Errors
/// Values that are nested too deeply, or too many values. A value that occurs in several places
/// counts once per place.
pub(super) fn value(pickled: &Pickled) -> Result<(Value, usize), String> {
    let mut count = 0;
    let value = made(pickled, pickled.root(), 0, &mut count)?;
    Ok((value, count))
}

fn made(pickled: &Pickled, object: &Object, depth: usize, count: &mut usize) -> Result<Value, String> {
    *count += match object {
        Object::Array(array) => (array.bytes.len() / array.of.size).max(1),
        _ => 1,
    };
    if *count > MOST_VALUES {
        return Err(format!("it holds more than {MOST_VALUES} values"));
    }
    if depth > DEEPEST {
        return Err(format!("its values are nested more than {DEEPEST} levels deep"));
    }
    let mut one = |place: u32| made(pickled, pickled.get(place), depth + 1, count);
    let mut all = |items: &[u32]| items.iter().map(|item| one(*item)).collect::<Result<Vec<Value>, String>>();
    let foreign =
        |name: &str| Value::Call(Arc::new(CallValue { name: name.to_owned(), args: Vec::new(), named: Vec::new() }));
    Ok(match object {
        Object::None => Value::None,
        Object::Number(number) => of_number(*number),
        Object::Text(text) => Value::text(text),
        // Strings of Python 2.
        Object::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::text(text),
            Err(_) => foreign("bytes"),
        },
        Object::Tuple(items) => Value::Tuple(all(items)?.into()),
        Object::List(items) => Value::List(all(items)?.into()),
        Object::Set(items) => Value::Set(all(items)?.into()),
        Object::Dict(entries) => {
            let pairs = entries.iter().map(|(key, value)| Ok((one(*key)?, one(*value)?)));
            Value::Dict(pairs.collect::<Result<Vec<_>, String>>()?.into())
        }
        Object::Array(array) => of_array(array)?,
        Object::Name(name) => foreign(name),
        Object::Foreign(object) => foreign(&object.name),
        Object::Tensor(_) => foreign("torch.Tensor"),
        Object::Storage(_) => foreign("torch.storage"),
        Object::Large(_) => foreign("int"),
        Object::Type(_) => foreign("numpy.dtype"),
        Object::Hollow => foreign("numpy.ndarray"),
    })
}

fn of_number(number: Number) -> Value {
    match number {
        Number::Bool(truth) => Value::Bool(truth),
        Number::Int(number) => Value::Int(number),
        Number::Float(number) => Value::Float(number),
    }
}

fn of_array(array: &Array) -> Result<Value, String> {
    let values = array.numbers().map_err(|error| error.to_string())?;
    Ok(nested(&array.shape, &values))
}

/// An array as columns of columns; an array without axes is its number.
fn nested(shape: &[usize], values: &[Number]) -> Value {
    let Some((count, rest)) = shape.split_first() else {
        return values.first().map_or(Value::None, |number| of_number(*number));
    };
    let each: usize = rest.iter().product();
    let part = |place: usize| nested(rest, &values[place * each..(place + 1) * each]);
    Value::Column((0..*count).map(part).collect())
}
