//! Operators with Python's rules.

use std::sync::Arc;

use super::{Eval, World};
use crate::fault::Fault;
use crate::syntax::{Binary, Compare, Unary};
use crate::value::{CallValue, Value};

/// The elements of an iterable value.
pub fn elements(value: &Value) -> Eval<Vec<Value>> {
    match value {
        Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::Column(items) => Ok(items.to_vec()),
        Value::Dict(entries) => Ok(entries.iter().map(|(key, _)| key.clone()).collect()),
        Value::Text(text) => Ok(text.chars().map(|c| Value::text(c.to_string())).collect()),
        other => Err(Fault::value(format!("{} is not iterable", other.kind()))),
    }
}

/// Converts an array to nested lists.
pub fn listed(value: &Value) -> Value {
    match value {
        Value::Column(items) => Value::list(items.iter().map(listed)),
        other => other.clone(),
    }
}

/// Makes a set of values.
pub fn set(items: Vec<Value>) -> Value {
    let mut out: Vec<Value> = Vec::new();
    let simple = items.iter().all(|item| item.as_int().is_some());
    if simple {
        let mut seen = std::collections::HashSet::new();
        out.extend(items.into_iter().filter(|item| seen.insert(item.as_int())));
        // Python's sets of small numbers are in order.
        out.sort_by_key(Value::as_int);
    } else {
        for item in items {
            if !out.iter().any(|other| other.equals(&item)) {
                out.push(item);
            }
        }
    }
    Value::Set(out.into())
}

/// Inserts an entry into a dictionary.
pub fn insert(entries: &mut Vec<(Value, Value)>, key: Value, value: Value) {
    match entries.iter_mut().find(|(known, _)| known.equals(&key)) {
        Some(entry) => entry.1 = value,
        None => entries.push((key, value)),
    }
}

fn unfit(what: &str, a: &Value, b: &Value) -> Fault {
    Fault::value(format!("{what} of {} and {}", a.kind(), b.kind()))
}

/// Evaluates `-a`, `+a` and `~a`.
pub fn unary(op: Unary, value: &Value) -> Eval {
    let wrong = || Fault::value(format!("a sign before {}", value.kind()));
    Ok(match (op, value) {
        (_, Value::Unknown) => Value::Unknown,
        (Unary::Neg, Value::Float(number)) => Value::Float(-number),
        (Unary::Pos, Value::Float(number)) => Value::Float(*number),
        (Unary::Invert, Value::Float(_)) => return Err(wrong()),
        (op, value) => {
            let number = value.as_int().ok_or_else(wrong)?;
            let made = match op {
                Unary::Neg => number.checked_neg(),
                Unary::Invert => Some(!number),
                Unary::Pos | Unary::Not => Some(number),
            };
            Value::Int(made.ok_or_else(wrong)?)
        }
    })
}

/// Evaluates binary operators such as `a + b`.
pub fn binary(op: Binary, a: &Value, b: &Value, world: &World) -> Eval {
    match (op, a, b) {
        (_, Value::Unknown, _) | (_, _, Value::Unknown) => return Ok(Value::Unknown),
        // Columns: element by element.
        (_, Value::Column(items), Value::Column(others)) if items.len() == others.len() => {
            let made: Eval<Vec<Value>> =
                items.iter().zip(others.iter()).map(|(a, b)| binary(op, a, b, world)).collect();
            return Ok(Value::Column(made?.into()));
        }
        (_, Value::Column(items), other) => {
            let made: Eval<Vec<Value>> = items.iter().map(|item| binary(op, item, other, world)).collect();
            return Ok(Value::Column(made?.into()));
        }
        (_, other, Value::Column(items)) => {
            let made: Eval<Vec<Value>> = items.iter().map(|item| binary(op, other, item, world)).collect();
            return Ok(Value::Column(made?.into()));
        }
        (Binary::Add, Value::Text(a), Value::Text(b)) => {
            world.take(a.len() + b.len())?;
            return Ok(Value::text(format!("{a}{b}")));
        }
        (Binary::Div, Value::Path(a), Value::Text(b) | Value::Path(b)) => {
            return Ok(Value::Path(super::files::join(a, b).as_str().into()));
        }
        (Binary::Add, Value::List(a), Value::List(b)) => {
            world.take(a.len() + b.len())?;
            return Ok(Value::List(a.iter().chain(b.iter()).cloned().collect()));
        }
        (Binary::Add, Value::Tuple(a), Value::Tuple(b)) => {
            world.take(a.len() + b.len())?;
            return Ok(Value::Tuple(a.iter().chain(b.iter()).cloned().collect()));
        }
        (Binary::Sub, Value::Set(a), Value::Set(b)) => {
            return Ok(Value::Set(a.iter().filter(|a| !b.iter().any(|b| a.equals(b))).cloned().collect()));
        }
        (Binary::And, Value::Set(a), Value::Set(b)) => {
            return Ok(Value::Set(a.iter().filter(|a| b.iter().any(|b| a.equals(b))).cloned().collect()));
        }
        (Binary::Or, Value::Set(a), Value::Set(b)) => return Ok(set(a.iter().chain(b.iter()).cloned().collect())),
        (Binary::Or, Value::Dict(a), Value::Dict(b)) => {
            let mut entries = a.to_vec();
            b.iter().for_each(|(key, value)| insert(&mut entries, key.clone(), value.clone()));
            return Ok(Value::Dict(entries.into()));
        }
        (Binary::Mul, Value::Text(_) | Value::List(_) | Value::Tuple(_), times) => return repeat(a, times, world),
        (Binary::Mul, times, Value::Text(_) | Value::List(_) | Value::Tuple(_)) => return repeat(b, times, world),
        _ => {}
    }
    if let (Some(a), Some(b)) = (a.as_int(), b.as_int())
        && let Some(made) = whole(op, a, b)?
    {
        return Ok(made);
    }
    let (Some(x), Some(y)) = (a.as_float(), b.as_float()) else {
        return Err(unfit(sign(op), a, b));
    };
    let zero = || Fault::value("a division by zero");
    Ok(Value::Float(match op {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x * y,
        Binary::Div if y == 0.0 => return Err(zero()),
        Binary::Div => x / y,
        Binary::FloorDiv | Binary::Mod if y == 0.0 => return Err(zero()),
        Binary::FloorDiv => (x / y).floor(),
        Binary::Mod => x - y * (x / y).floor(),
        Binary::Pow => x.powf(y),
        Binary::And | Binary::Or => return Err(unfit(sign(op), a, b)),
    }))
}

fn sign(op: Binary) -> &'static str {
    match op {
        Binary::Add => "a sum (+)",
        Binary::Sub => "a difference (-)",
        Binary::Mul => "a product (*)",
        Binary::Div => "a quotient (/)",
        Binary::FloorDiv => "a quotient (//)",
        Binary::Mod => "a remainder (%)",
        Binary::Pow => "a power (**)",
        Binary::And => "&",
        Binary::Or => "|",
    }
}

/// Evaluates an operator on two integers, if the result is an integer.
fn whole(op: Binary, a: i64, b: i64) -> Eval<Option<Value>> {
    let large = || Fault::value("a whole number of more than 64 bits");
    let zero = || Fault::value("a division by zero");
    Ok(Some(Value::Int(match op {
        Binary::Add => a.checked_add(b).ok_or_else(large)?,
        Binary::Sub => a.checked_sub(b).ok_or_else(large)?,
        Binary::Mul => a.checked_mul(b).ok_or_else(large)?,
        Binary::FloorDiv | Binary::Mod if b == 0 => return Err(zero()),
        Binary::FloorDiv => {
            let quotient = a.checked_div(b).ok_or_else(large)?;
            if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
        }
        Binary::Mod => {
            let rest = a.checked_rem(b).ok_or_else(large)?;
            if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
        }
        Binary::Pow if b >= 0 => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)).ok_or_else(large)?,
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Div | Binary::Pow => return Ok(None),
    })))
}

fn repeat(value: &Value, times: &Value, world: &World) -> Eval {
    let count = times.as_int().ok_or_else(|| unfit("a product (*)", value, times))?;
    let count = usize::try_from(count).unwrap_or(0);
    let len = match value {
        Value::Text(text) => text.len(),
        other => other.as_slice().map_or(0, <[Value]>::len),
    };
    world.take(len.saturating_mul(count))?;
    let all = |items: &Arc<[Value]>| -> Arc<[Value]> { items.iter().cycle().take(len * count).cloned().collect() };
    Ok(match value {
        Value::Text(text) => Value::text(text.repeat(count)),
        Value::List(items) => Value::List(all(items)),
        Value::Tuple(items) => Value::Tuple(all(items)),
        other => return Err(unfit("a product (*)", other, times)),
    })
}

/// Python's truth value; `None` if the value is unknown.
///
/// # Errors
/// A table or an array of several elements, as in pandas and NumPy.
pub fn truth(value: &Value) -> Eval<Option<bool>> {
    match value {
        Value::Column(items) if items.len() == 1 => truth(&items[0]),
        Value::Column(_) | Value::Table(_) => {
            Err(Fault::value(format!("the truth of {} is ambiguous: compare its elements", value.kind())))
        }
        other => Ok(other.truth()),
    }
}

/// Evaluates a comparison; `None` if a value is unknown.
pub fn compare(op: Compare, a: &Value, b: &Value) -> Eval<Option<bool>> {
    if matches!(a, Value::Unknown) || matches!(b, Value::Unknown) {
        return Ok(None);
    }
    let same = |a: &Value, b: &Value| match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Bool(_), _) | (_, Value::Bool(_)) => false,
        _ => a.equals(b),
    };
    Ok(Some(match op {
        Compare::Eq => a.equals(b),
        Compare::Ne => !a.equals(b),
        Compare::Is => same(a, b),
        Compare::IsNot => !same(a, b),
        Compare::In => contains(b, a)?,
        Compare::NotIn => !contains(b, a)?,
        Compare::Lt => order(a, b)?.is_lt(),
        Compare::Le => order(a, b)?.is_le(),
        Compare::Gt => order(a, b)?.is_gt(),
        Compare::Ge => order(a, b)?.is_ge(),
    }))
}

fn contains(whole: &Value, part: &Value) -> Eval<bool> {
    match (whole, part) {
        (Value::Text(whole), Value::Text(part)) => Ok(whole.contains(&**part)),
        _ => Ok(elements(whole)?.iter().any(|item| item.equals(part))),
    }
}

/// Orders two values.
pub fn order(a: &Value, b: &Value) -> Eval<std::cmp::Ordering> {
    match (a, b) {
        (Value::Text(a) | Value::Path(a), Value::Text(b) | Value::Path(b)) => Ok(a.cmp(b)),
        (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
            for (a, b) in a.iter().zip(b.iter()) {
                match order(a, b)? {
                    std::cmp::Ordering::Equal => {}
                    other => return Ok(other),
                }
            }
            Ok(a.len().cmp(&b.len()))
        }
        _ => {
            let numbers = a.as_float().zip(b.as_float());
            numbers.and_then(|(a, b)| a.partial_cmp(&b)).ok_or_else(|| unfit("an order", a, b))
        }
    }
}

/// Evaluates `value[index]`.
pub fn index(value: &Value, index: &Value) -> Eval {
    let missing = |what: String| Err(Fault::value(what));
    match (value, index) {
        (Value::Unknown, _) | (_, Value::Unknown) => Ok(Value::Unknown),
        (Value::Dict(entries), key) => match entries.iter().find(|(known, _)| known.equals(key)) {
            Some((_, value)) => Ok(value.clone()),
            None => missing(format!("the dictionary has no key {}", shown(key))),
        },
        (Value::Table(columns), Value::Text(name)) => match columns.iter().find(|(known, _)| **known == **name) {
            Some((_, column)) => Ok(column.clone()),
            None => missing(format!("the table has no column {name}")),
        },
        // A call that is evaluated later is also indexed later.
        (Value::Call(_), key) => Ok(Value::Call(Arc::new(CallValue {
            name: "[]".to_owned(),
            args: vec![value.clone(), key.clone()],
            named: Vec::new(),
        }))),
        (Value::Text(text), Value::Slice(start, end, step)) => {
            let all: Vec<char> = text.chars().collect();
            let chosen = places(all.len(), *start, *end, *step)?;
            Ok(Value::text(chosen.into_iter().filter_map(|place| all.get(place)).collect::<String>()))
        }
        (Value::List(items), Value::Slice(start, end, step)) => Ok(Value::List(chosen(items, *start, *end, *step)?)),
        (Value::Column(items), Value::Slice(start, end, step)) => {
            Ok(Value::Column(chosen(items, *start, *end, *step)?))
        }
        (Value::Tuple(items), Value::Slice(start, end, step)) => Ok(Value::Tuple(chosen(items, *start, *end, *step)?)),
        (Value::Text(_) | Value::List(_) | Value::Tuple(_) | Value::Column(_), place) => {
            let items = elements(value)?;
            let Some(at) = place.as_int() else { return missing(format!("{} is no index of a list", place.kind())) };
            let found = usize::try_from(if at < 0 { at + items.len() as i64 } else { at }).ok();
            match found.and_then(|at| items.get(at)) {
                Some(item) => Ok(item.clone()),
                None => missing(format!("the index {at} of {} elements", items.len())),
            }
        }
        (other, _) => Err(Fault::outside(format!("{} is indexed", other.kind()))),
    }
}

fn chosen(items: &[Value], start: Option<i64>, end: Option<i64>, step: Option<i64>) -> Eval<Arc<[Value]>> {
    let chosen = places(items.len(), start, end, step)?;
    Ok(chosen.into_iter().filter_map(|place| items.get(place).cloned()).collect())
}

/// The indices that a slice selects from `len` elements, in order.
///
/// # Errors
/// A step of 0.
pub fn places(len: usize, start: Option<i64>, end: Option<i64>, step: Option<i64>) -> Eval<Vec<usize>> {
    let (len, step) = (len as i64, step.unwrap_or(1));
    if step == 0 {
        return Err(Fault::value("a slice of step 0"));
    }
    let (least, most) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let bound = |at: i64| (if at < 0 { at.saturating_add(len) } else { at }).clamp(least, most);
    let start = start.map_or(if step > 0 { 0 } else { len - 1 }, bound);
    let end = end.map_or(if step > 0 { len } else { -1 }, bound);
    let mut places = Vec::new();
    let mut at = start;
    while if step > 0 { at < end } else { at > end } {
        places.push(at as usize);
        at = at.saturating_add(step);
    }
    Ok(places)
}

fn shown(value: &Value) -> String {
    value.to_json().map_or_else(|| value.kind(), |value| value.to_string())
}
