//! `postprocessing.pkl`: a tuple of functions and their arguments. Functions are read by name and
//! never called.

use hearth_pickle::{Number, Object, Options, Others, PickleError, Pickled, parse};
use serde_json::{Map, Value};

use super::FUNCTION;

/// The largest number of values, and their nesting depth.
const MOST_VALUES: usize = 100_000;
const DEEPEST: usize = 16;

/// Reads the value of a pickle; a function becomes its dotted name, a tuple a list.
pub(super) fn read(bytes: &[u8]) -> Result<Value, String> {
    let named = Others::Named(|name| name.rsplit('.').next() == Some(FUNCTION));
    let options = Options { others: named, objects: MOST_VALUES, bytes: 16 << 20, array: 1 << 10, numpy: true };
    let (pickled, _) = parse(bytes, &options).map_err(|error| match error {
        PickleError::Refused(name) => format!("the function {name} is not supported; {FUNCTION} is"),
        PickleError::Invalid(what) => what,
    })?;
    value(&pickled, pickled.root(), 0, &mut 0)
}

fn value(pickled: &Pickled, object: &Object, depth: usize, count: &mut usize) -> Result<Value, String> {
    *count += 1;
    if *count > MOST_VALUES || depth > DEEPEST {
        return Err(format!("the pickle holds more than {MOST_VALUES} values, or values within {DEEPEST} others"));
    }
    let mut list = |items: &[u32]| -> Result<Value, String> {
        items.iter().map(|item| value(pickled, pickled.get(*item), depth + 1, count)).collect()
    };
    Ok(match object {
        Object::None => Value::Null,
        Object::Number(number) => of_number(*number),
        Object::Text(text) | Object::Name(text) => Value::from(&**text),
        Object::Tuple(items) => list(items)?,
        Object::List(items) | Object::Set(items) => list(items)?,
        Object::Dict(entries) => {
            let mut table = Map::new();
            for (key, of) in entries {
                let name = pickled.text(*key).ok_or_else(|| format!("{} is no key", pickled.get(*key).kind()))?;
                table.insert(name.to_owned(), value(pickled, pickled.get(*of), depth + 1, count)?);
            }
            Value::Object(table)
        }
        Object::Array(array) if array.shape.len() < 2 => {
            let numbers = array.numbers().map_err(|error| error.to_string())?;
            *count += numbers.len();
            match array.shape.is_empty() {
                true => numbers.first().map_or(Value::Null, |number| of_number(*number)),
                false => numbers.into_iter().map(of_number).collect(),
            }
        }
        other => return Err(format!("the pickle holds {}; expected functions and their arguments", other.kind())),
    })
}

/// JSON has no non-finite numbers.
fn of_number(number: Number) -> Value {
    match number {
        Number::Bool(truth) => truth.into(),
        Number::Int(number) => number.into(),
        Number::Float(number) => number.into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::read;

    proptest! {
        #[test]
        fn any_bytes_are_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }
    }

    /// A list within itself, and a list that occurs in many places.
    #[test]
    fn values_are_limited_in_depth_and_number() {
        let within_itself = b"\x80\x02]q\x00h\x00a.";
        assert!(read(within_itself).is_err_and(|error| error.contains("within 16 others")));
        let mut many = b"\x80\x02]q\x00".to_vec();
        for level in 0..10_u8 {
            many.extend_from_slice(b"](");
            (0..10).for_each(|_| many.extend_from_slice(&[b'h', level]));
            many.extend_from_slice(&[b'e', b'q', level + 1]);
        }
        many.push(b'.');
        assert!(read(&many).is_err_and(|error| error.contains("100000 values")));
    }

    /// Labels may be NumPy's, alone or in arrays; no other function is accepted.
    #[test]
    fn labels_are_numbers_of_python_and_numpy() {
        let parts: [&[u8]; 3] = [
            b"\x80\x02}X\x01\x00\x00\x00acnumpy.core.multiarray\nscalar\ncnumpy\ndtype\nX\x02\x00\x00\x00i2\x89\x88\x87R",
            b"(K\x03X\x01\x00\x00\x00<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb",
            b"C\x02\x02\x01\x86Rs.",
        ];
        assert_eq!(read(&parts.concat()), Ok(json!({"a": 258})));
        let other = b"\x80\x02cnnunetv2.utilities\nother\n.";
        assert!(read(other).is_err_and(|error| error.contains("nnunetv2.utilities.other is not supported")));
    }
}
