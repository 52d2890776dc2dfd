//! The calls by which NumPy and PyTorch store their objects, understood as data.

use super::object::{Array, Number, Object, Place};

/// What a storage of a tensor is called here.
pub(super) const STORAGE: &str = "torch.storage";

/// The largest array that is read into an expression.
const MOST_VALUES: usize = 1 << 20;

/// The most rows of an array that has no values: no byte of the file stands for them.
const MOST_ROWS: usize = 1 << 12;

/// What may be named: what NumPy and plain dictionaries are made of, and what PyTorch makes of
/// tensors, which is not read and fails where it is used.
const KNOWN: [&str; 25] = [
    "_codecs.encode",
    "__builtin__.bytearray",
    "__builtin__.bytes",
    "__builtin__.frozenset",
    "__builtin__.set",
    "builtins.bytearray",
    "builtins.bytes",
    "builtins.frozenset",
    "builtins.set",
    "collections.OrderedDict",
    "collections.defaultdict",
    "numpy.dtype",
    "numpy.ndarray",
    "numpy._core.multiarray._reconstruct",
    "numpy._core.multiarray.scalar",
    "numpy._core.numeric._frombuffer",
    "numpy.core.multiarray._reconstruct",
    "numpy.core.multiarray.scalar",
    "numpy.core.numeric._frombuffer",
    "torch.Size",
    "torch.device",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch.serialization._get_layout",
];

/// Whether a function or class may be named.
pub(super) fn is_known(name: &str) -> bool {
    let storage = |name: &str| name.ends_with("Storage") && !name.contains('.');
    let types = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"];
    let of_torch = name.strip_prefix("torch.").is_some_and(|rest| storage(rest) || types.contains(&rest));
    let of_numpy = name.strip_prefix("numpy.dtypes.").is_some_and(|rest| rest.ends_with("DType"));
    KNOWN.contains(&name) || of_torch || of_numpy
}

/// What a call gives.
pub(super) fn call(objects: &[Object], function: Place, arguments: Place) -> Result<Object, String> {
    let Object::Name(name) = &objects[function] else {
        return Err(format!("the pickle calls {}; nothing is called", objects[function].kind()));
    };
    let Object::Tuple(given) = &objects[arguments] else {
        return Err(format!("the pickle calls {name} with what is no tuple"));
    };
    let given: Vec<&Object> = given.iter().map(|place| &objects[*place]).collect();
    let short = name.rsplit('.').next().unwrap_or(name);
    match (short, &given[..]) {
        ("dtype", [Object::Text(text), ..]) => type_of(text),
        ("dtype", [Object::Bytes(text), ..]) => type_of(&String::from_utf8_lossy(text)),
        // Values come behind, as its state.
        ("_reconstruct", _) => Ok(Object::Hollow),
        ("scalar", [kind, Object::Bytes(bytes)]) => match numbers(kind, bytes)?[..] {
            [number] => Ok(Object::Number(number)),
            _ => Err("the pickle has a number of NumPy's with too many bytes".to_owned()),
        },
        ("_frombuffer", [Object::Bytes(bytes), kind, Object::Tuple(shape), order]) => {
            let columns = matches!(order, Object::Text(order) if order == "F");
            array(objects, shape, kind, columns, bytes)
        }
        // A text stands for bytes, one each.
        ("encode", [Object::Text(text), Object::Text(code), ..]) if code == "latin1" || code == "latin-1" => {
            let bytes: Result<Vec<u8>, _> = text.chars().map(|c| u8::try_from(u32::from(c))).collect();
            Ok(Object::Bytes(bytes.map_err(|_| "the pickle has bytes above 255")?))
        }
        ("bytes" | "bytearray", []) => Ok(Object::Bytes(Vec::new())),
        ("bytes" | "bytearray", [Object::Bytes(bytes)]) => Ok(Object::Bytes(bytes.clone())),
        ("set" | "frozenset", []) => Ok(Object::Set(Vec::new())),
        ("set" | "frozenset", [Object::List(items) | Object::Tuple(items)]) => Ok(Object::Set(items.clone())),
        ("OrderedDict" | "defaultdict", []) => Ok(Object::Dict(Vec::new())),
        ("Size", [Object::List(items) | Object::Tuple(items)]) => Ok(Object::Tuple(items.clone())),
        _ if name.starts_with("torch.") => Ok(Object::Foreign("torch.Tensor".to_owned())),
        _ => Err(format!("the pickle has {name} with values that NumPy does not write")),
    }
}

/// An object with its state; nothing where that changes nothing here.
pub(super) fn build(objects: &[Object], place: Place, state: Place) -> Result<Option<Object>, String> {
    match (&objects[place], &objects[state]) {
        (Object::Type { kind, size, .. }, Object::Tuple(state)) => {
            let order = match state.get(1).map(|place| &objects[*place]) {
                Some(Object::Text(order)) => order.clone(),
                Some(Object::Bytes(order)) => String::from_utf8_lossy(order).into_owned(),
                _ => String::new(),
            };
            match order.as_str() {
                "<" | "|" | "=" => Ok(Some(Object::Type { kind: *kind, size: *size, big: false })),
                ">" => Ok(Some(Object::Type { kind: *kind, size: *size, big: true })),
                other => Err(format!("the pickle has numbers in the order {other:?}; expected <, > or |")),
            }
        }
        (Object::Hollow, Object::Tuple(state)) => {
            // A version stands before, but for those of the first years.
            let parts = if state.len() == 5 { &state[1..] } else { &state[..] };
            let parts: Vec<&Object> = parts.iter().map(|place| &objects[*place]).collect();
            match parts[..] {
                [Object::Tuple(shape), kind, Object::Number(columns), Object::Bytes(bytes)] => {
                    let columns = !matches!(columns, Number::Bool(false) | Number::Int(0));
                    array(objects, shape, kind, columns, bytes).map(Some)
                }
                [Object::Tuple(_), _, _, Object::List(_)] => {
                    Err("the pickle has an array of Python objects; arrays of numbers are read".to_owned())
                }
                _ => Err("the pickle has an array with a state that NumPy does not write".to_owned()),
            }
        }
        // Attributes of a tensor or an OrderedDict.
        (Object::Foreign(_) | Object::Dict(_), _) => Ok(None),
        (other, _) => Err(format!("the pickle changes {}; nothing is changed", other.kind())),
    }
}

/// A type by NumPy's short name: `f8`, `i4`, `b1`; with an order of bytes before it, or without.
fn type_of(text: &str) -> Result<Object, String> {
    let (big, name) = match text.strip_prefix(['<', '|', '=']) {
        Some(name) => (false, name),
        None => text.strip_prefix('>').map_or((false, text), |name| (true, name)),
    };
    let known = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"];
    match known.contains(&name) {
        true => {
            let kind = name.chars().next().unwrap_or('f');
            Ok(Object::Type { kind, size: usize::from(name.as_bytes()[1] - b'0'), big })
        }
        false => Err(format!("the pickle has values of NumPy's type {text}; whole and real numbers are read")),
    }
}

fn array(objects: &[Object], shape: &[Place], kind: &Object, columns: bool, bytes: &[u8]) -> Result<Object, String> {
    let sizes = shape.iter().map(|place| match &objects[*place] {
        Object::Number(Number::Int(size)) => usize::try_from(*size).ok(),
        _ => None,
    });
    let shape: Vec<usize> = sizes.collect::<Option<_>>().ok_or("the pickle has an array whose shape is none")?;
    // Axes are counted as values, too: an array of no values may have many.
    let count = shape.iter().try_fold(1_usize, |count, size| count.checked_mul(*size));
    let nodes = shape.iter().try_fold(1_usize, |count, size| count.checked_mul((*size).max(1)));
    let most = if count == Some(0) { MOST_ROWS } else { MOST_VALUES };
    let (Some(count), Some(_)) = (count, nodes.filter(|nodes| *nodes <= most && shape.len() <= 32)) else {
        return Err(format!("the pickle has an array of shape {shape:?}; at most {most} values are read"));
    };
    let values = numbers(kind, bytes)?;
    if values.len() != count {
        return Err(format!("the pickle has an array of shape {shape:?} with {} values", values.len()));
    }
    let values = if columns { by_rows(&shape, &values) } else { values };
    Ok(Object::Array(Array { shape, values }))
}

/// Values in rows, of values whose first axis runs fastest.
fn by_rows(shape: &[usize], values: &[Number]) -> Vec<Number> {
    let place = |index: usize| {
        let (mut rest, mut place) = (index, 0);
        for (axis, size) in shape.iter().enumerate().rev() {
            let stride: usize = shape[..axis].iter().product();
            place += rest % size * stride;
            rest /= size;
        }
        values[place]
    };
    (0..values.len()).map(place).collect()
}

/// The numbers in some bytes.
fn numbers(kind: &Object, bytes: &[u8]) -> Result<Vec<Number>, String> {
    let Object::Type { kind, size, big } = *kind else {
        return Err("the pickle has numbers without their type".to_owned());
    };
    if !bytes.len().is_multiple_of(size) {
        return Err(format!("the pickle has {} bytes of numbers of {size} bytes each", bytes.len()));
    }
    let number = |part: &[u8]| {
        let add = |number: u64, byte: &u8| (number << 8) | u64::from(*byte);
        let raw = if big { part.iter().fold(0, add) } else { part.iter().rev().fold(0, add) };
        let unused = 64 - 8 * size as u32;
        match (kind, size) {
            ('b', _) => Ok(Number::Bool(raw != 0)),
            ('i', _) => Ok(Number::Int(((raw << unused) as i64) >> unused)),
            ('u', _) => i64::try_from(raw).map(Number::Int).map_err(|_| format!("the pickle has the number {raw}")),
            (_, 8) => Ok(Number::Float(f64::from_bits(raw))),
            (_, 4) => Ok(Number::Float(f64::from(f32::from_bits(raw as u32)))),
            _ => Ok(Number::Float(half(raw as u16))),
        }
    };
    bytes.chunks_exact(size).map(number).collect()
}

/// A number of 16 bits.
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
