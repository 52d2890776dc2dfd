//! The calls by which NumPy stores its numbers and arrays, read as data.

use crate::machine::Machine;
use crate::object::{Array, Number, Object, Place, Type};
use crate::{PickleError, Result};

/// The largest number of rows of an array without values, which takes no bytes of the file.
const MOST_ROWS: usize = 1 << 12;

/// The result of a call of NumPy's.
pub(crate) fn call(machine: &Machine<'_>, name: &str, given: &[&Object]) -> Result<Object> {
    let short = name.rsplit('.').next().unwrap_or(name);
    match (short, given) {
        ("dtype", [Object::Text(text), ..]) => type_of(text),
        ("dtype", [Object::Bytes(text), ..]) => type_of(&String::from_utf8_lossy(text)),
        // The values follow, as its state.
        ("_reconstruct", _) => Ok(Object::Hollow),
        ("scalar", [Object::Type(of), Object::Bytes(bytes)]) => match of.numbers(bytes)?[..] {
            [number] => Ok(Object::Number(number)),
            _ => Err("the pickle has a number of NumPy's with too many bytes".into()),
        },
        ("_frombuffer", [Object::Bytes(bytes), kind, Object::Tuple(shape), order]) => {
            let columns = matches!(order, Object::Text(order) if &**order == "F");
            array(machine, shape, kind, columns, bytes)
        }
        _ => Err(format!("the pickle has {name} with values that NumPy does not write").into()),
    }
}

/// A type with a byte order.
pub(crate) fn ordered(machine: &Machine<'_>, of: Type, state: &[Place]) -> Result<Object> {
    let order = state.get(1).and_then(|place| machine.object(*place).text()).unwrap_or_default();
    match order {
        "<" | "|" | "=" => Ok(Object::Type(Type { big: false, ..of })),
        ">" => Ok(Object::Type(Type { big: true, ..of })),
        other => Err(format!("the pickle has numbers in the order {other:?}; expected <, > or |").into()),
    }
}

/// An array with its state: a version, the shape, the type, whether the first axis runs fastest,
/// and the bytes.
pub(crate) fn filled(machine: &Machine<'_>, state: &[Place]) -> Result<Object> {
    // Early NumPy versions wrote no version.
    let parts = if state.len() == 5 { &state[1..] } else { state };
    let parts: Vec<&Object> = parts.iter().take(5).map(|place| machine.object(*place)).collect();
    match parts[..] {
        [Object::Tuple(shape), kind, Object::Number(columns), Object::Bytes(bytes)] => {
            let columns = !matches!(columns, Number::Bool(false) | Number::Int(0));
            array(machine, shape, kind, columns, bytes)
        }
        [Object::Tuple(_), _, _, Object::List(_)] => {
            Err("the pickle has an array of Python objects; arrays of numbers are read".into())
        }
        _ => Err("the pickle has an array with a state that NumPy does not write".into()),
    }
}

/// A type by NumPy's short name: `f8`, `i4`, `b1`; with or without a byte order in front.
fn type_of(text: &str) -> Result<Object> {
    let (big, name) = match text.strip_prefix(['<', '|', '=']) {
        Some(name) => (false, name),
        None => text.strip_prefix('>').map_or((false, text), |name| (true, name)),
    };
    let known = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"];
    match known.contains(&name) {
        true => {
            let kind = name.chars().next().unwrap_or('f');
            Ok(Object::Type(Type { kind, size: usize::from(name.as_bytes()[1] - b'0'), big }))
        }
        false => {
            Err(format!("the pickle has values of NumPy's type {text}; whole and real numbers are supported").into())
        }
    }
}

fn array(machine: &Machine<'_>, shape: &[Place], kind: &Object, columns: bool, bytes: &[u8]) -> Result<Object> {
    if shape.len() > 32 {
        return Err("the pickle has an array of more than 32 axes".into());
    }
    let shape: Option<Vec<usize>> = shape.iter().map(|place| machine.object(*place).size()).collect();
    let shape = shape.ok_or("the pickle has an array with an invalid shape")?;
    // Lengths of axes are limited too: an array without values may have many.
    let count = shape.iter().try_fold(1_usize, |count, size| count.checked_mul(*size));
    let nodes = shape.iter().try_fold(1_usize, |count, size| count.checked_mul((*size).max(1)));
    let most = if count == Some(0) { MOST_ROWS } else { machine.options.array };
    let (Some(count), Some(_)) = (count, nodes.filter(|nodes| *nodes <= most)) else {
        return Err(format!("the pickle has an array of shape {shape:?}; at most {most} values are read").into());
    };
    let Object::Type(of) = *kind else { return Err("the pickle has numbers without their type".into()) };
    let values = of.count(bytes)?;
    if values != count {
        return Err(format!("the pickle has an array of shape {shape:?} with {values} values").into());
    }
    Ok(Object::Array(Box::new(Array { shape, of, columns, bytes: bytes.into() })))
}

impl Type {
    /// The number of values in some bytes.
    fn count(self, bytes: &[u8]) -> Result<usize> {
        match bytes.len().is_multiple_of(self.size) {
            true => Ok(bytes.len() / self.size),
            false => Err(format!("the pickle has {} bytes of numbers of {} bytes each", bytes.len(), self.size).into()),
        }
    }

    /// The numbers in some bytes.
    fn numbers(self, bytes: &[u8]) -> Result<Vec<Number>> {
        self.count(bytes)?;
        bytes.chunks_exact(self.size).map(|part| self.number(part)).collect()
    }

    fn number(self, part: &[u8]) -> Result<Number> {
        let add = |number: u64, byte: &u8| (number << 8) | u64::from(*byte);
        let raw = if self.big { part.iter().fold(0, add) } else { part.iter().rev().fold(0, add) };
        let unused = 64 - 8 * self.size as u32;
        match (self.kind, self.size) {
            ('b', _) => Ok(Number::Bool(raw != 0)),
            ('i', _) => Ok(Number::Int(((raw << unused) as i64) >> unused)),
            ('u', _) => i64::try_from(raw)
                .map(Number::Int)
                .map_err(|_| PickleError::Invalid(format!("the pickle has the number {raw}"))),
            (_, 8) => Ok(Number::Float(f64::from_bits(raw))),
            (_, 4) => Ok(Number::Float(f64::from(f32::from_bits(raw as u32)))),
            _ => Ok(Number::Float(half(raw as u16))),
        }
    }
}

impl Array {
    /// The numbers, row-major.
    ///
    /// # Errors
    /// If a whole number has more than 63 bits.
    pub fn numbers(&self) -> Result<Vec<Number>> {
        let values = self.of.numbers(&self.bytes)?;
        if !self.columns {
            return Ok(values);
        }
        let place = |index: usize| {
            let (mut rest, mut place) = (index, 0);
            for (axis, size) in self.shape.iter().enumerate().rev() {
                let stride: usize = self.shape[..axis].iter().product();
                place += rest % size * stride;
                rest /= size;
            }
            values[place]
        };
        Ok((0..values.len()).map(place).collect())
    }
}

/// Converts a 16-bit float.
fn half(bits: u16) -> f64 {
    let fraction = f64::from(bits & 0x3ff) / 1024.0;
    let size = match (bits >> 10) & 0x1f {
        0 => fraction * 2f64.powi(-14),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (1.0 + fraction) * 2f64.powi(i32::from(exponent) - 15),
    };
    if bits & 0x8000 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::half;

    #[test]
    fn halves_are_those_of_the_standard() {
        for (bits, wanted) in [(0x3c00, 1.0), (0xc000, -2.0), (0x7bff, 65504.0), (0x0001, 2f64.powi(-24))] {
            assert_eq!(half(bits), wanted);
        }
        assert!(half(0x7e00).is_nan() && half(0xfc00) == f64::NEG_INFINITY);
    }
}
