//! The few opcodes of a pickle of lists, texts, numbers and names of functions. Nothing is called:
//! of the calls that a pickle may ask for, only numpy's numbers are understood, as data.

use serde_json::{Map, Number, Value};

/// Values are at most this deep and this many.
const MAX_STACK: usize = 100_000;

/// The value of a pickle; a function is its dotted name, a tuple a list.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, String> {
    Machine { bytes, at: 0, stack: Vec::new(), marks: Vec::new(), memo: Vec::new() }.run()
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Value>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: Vec<Value>,
}

fn ends() -> String {
    "the pickle ends early".to_owned()
}

impl Machine<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8], String> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len()).ok_or_else(ends)?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// A little-endian number of up to eight bytes.
    fn number(&mut self, count: usize) -> Result<u64, String> {
        Ok(self.take(count)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn line(&mut self) -> Result<String, String> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| *byte == b'\n').ok_or_else(ends)?;
        let line = String::from_utf8_lossy(&rest[..length]).into_owned();
        self.at += length + 1;
        Ok(line)
    }

    fn text(&mut self, length: u64) -> Result<(), String> {
        let length = usize::try_from(length).map_err(|_| ends())?;
        let text = String::from_utf8_lossy(self.take(length)?).into_owned();
        self.push(Value::String(text))
    }

    fn push(&mut self, value: Value) -> Result<(), String> {
        if self.stack.len() + self.memo.len() >= MAX_STACK {
            return Err("the pickle holds too many values".to_owned());
        }
        self.stack.push(value);
        Ok(())
    }

    fn pop(&mut self) -> Result<Value, String> {
        self.stack.pop().ok_or_else(|| "the pickle takes a value that it does not have".to_owned())
    }

    /// The values above the last mark.
    fn marked(&mut self) -> Result<Vec<Value>, String> {
        let mark = self.marks.pop().filter(|mark| *mark <= self.stack.len());
        Ok(self.stack.split_off(mark.ok_or_else(|| "the pickle has no mark".to_owned())?))
    }

    fn tuple(&mut self, count: usize) -> Result<(), String> {
        let first = self.stack.len().checked_sub(count).ok_or_else(ends)?;
        let items = self.stack.split_off(first);
        self.push(Value::Array(items))
    }

    fn append(&mut self, items: Vec<Value>) -> Result<(), String> {
        match self.stack.last_mut() {
            Some(Value::Array(list)) => {
                list.extend(items);
                Ok(())
            }
            _ => Err("the pickle appends to something that is no list".to_owned()),
        }
    }

    fn set(&mut self, items: Vec<Value>) -> Result<(), String> {
        let Some(Value::Object(table)) = self.stack.last_mut() else {
            return Err("the pickle sets a key of something that is no dictionary".to_owned());
        };
        for pair in items.chunks_exact(2) {
            let key = pair[0].as_str().ok_or_else(|| format!("{} is no key", pair[0]))?;
            table.insert(key.to_owned(), pair[1].clone());
        }
        Ok(())
    }

    /// A call: of numpy's numbers, which are a type and bytes.
    fn reduce(&mut self) -> Result<(), String> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let name = function.as_str().unwrap_or_default();
        let number = match (name, arguments.as_array().map(Vec::as_slice)) {
            ("numpy.dtype", Some([kind, ..])) => Some(kind.clone()),
            ("numpy._core.multiarray.scalar" | "numpy.core.multiarray.scalar", Some([kind, Value::Array(bytes)])) => {
                integer(kind.as_str().unwrap_or_default(), bytes)
            }
            _ => {
                return Err(format!(
                    "the pickle calls {function}; nothing is called, and only numpy's numbers are read"
                ));
            }
        };
        self.push(number.ok_or_else(|| format!("{arguments} is no whole number of numpy's"))?)
    }

    /// What is set in an object: of a type its order of bytes.
    fn build(&mut self) -> Result<(), String> {
        let state = self.pop()?;
        match state.get(1).and_then(Value::as_str) {
            Some("<" | "|" | "=") if self.stack.last().is_some_and(Value::is_string) => Ok(()),
            _ => Err("the pickle changes an object; expected numbers of numpy's, little endian".to_owned()),
        }
    }

    fn recall(&mut self, index: u64) -> Result<(), String> {
        let value = usize::try_from(index).ok().and_then(|index| self.memo.get(index)).cloned();
        self.push(value.ok_or_else(|| "the pickle recalls what it did not store".to_owned())?)
    }

    fn memoize(&mut self, index: usize) -> Result<(), String> {
        let value = self.stack.last().cloned().ok_or_else(ends)?;
        if index > MAX_STACK || self.memo.len() >= MAX_STACK {
            return Err("the pickle holds too many values".to_owned());
        }
        if index >= self.memo.len() {
            self.memo.resize(index + 1, Value::Null);
        }
        self.memo[index] = value;
        Ok(())
    }

    fn run(mut self) -> Result<Value, String> {
        loop {
            match self.take(1)?[0] {
                0x80 => drop(self.take(1)?),
                0x95 => drop(self.take(8)?),
                b'.' => return self.pop(),
                b'(' => self.marks.push(self.stack.len()),
                b']' | b')' => self.push(Value::Array(Vec::new()))?,
                b'}' => self.push(Value::Object(Map::new()))?,
                b'N' => self.push(Value::Null)?,
                0x88 => self.push(Value::Bool(true))?,
                0x89 => self.push(Value::Bool(false))?,
                b'K' => {
                    let number = self.number(1)?;
                    self.push(number.into())?;
                }
                b'M' => {
                    let number = self.number(2)?;
                    self.push(number.into())?;
                }
                b'J' => {
                    let number = self.number(4)? as u32 as i32;
                    self.push(number.into())?;
                }
                b'G' => {
                    let bits = self.number(8)?.swap_bytes();
                    self.push(Number::from_f64(f64::from_bits(bits)).map_or(Value::Null, Value::Number))?;
                }
                0x8c => {
                    let length = self.number(1)?;
                    self.text(length)?;
                }
                b'X' => {
                    let length = self.number(4)?;
                    self.text(length)?;
                }
                b'C' => {
                    let length = self.number(1)? as usize;
                    let bytes = self.take(length)?.iter().map(|byte| Value::from(*byte)).collect();
                    self.push(Value::Array(bytes))?;
                }
                b'R' => self.reduce()?,
                b'b' => self.build()?,
                b'c' => {
                    let name = format!("{}.{}", self.line()?, self.line()?);
                    self.push(Value::String(name))?;
                }
                0x93 => {
                    let (name, module) = (self.pop()?, self.pop()?);
                    let name = format!("{}.{}", module.as_str().unwrap_or_default(), name.as_str().unwrap_or_default());
                    self.push(Value::String(name))?;
                }
                b'a' => {
                    let item = self.pop()?;
                    self.append(vec![item])?;
                }
                b'e' => {
                    let items = self.marked()?;
                    self.append(items)?;
                }
                b's' => {
                    let (value, key) = (self.pop()?, self.pop()?);
                    self.set(vec![key, value])?;
                }
                b'u' => {
                    let items = self.marked()?;
                    self.set(items)?;
                }
                b't' => {
                    let items = self.marked()?;
                    self.push(Value::Array(items))?;
                }
                0x85 => self.tuple(1)?,
                0x86 => self.tuple(2)?,
                0x87 => self.tuple(3)?,
                0x94 => self.memoize(self.memo.len())?,
                b'q' => {
                    let index = self.number(1)? as usize;
                    self.memoize(index)?;
                }
                b'r' => {
                    let index = self.number(4)? as usize;
                    self.memoize(index)?;
                }
                b'h' => {
                    let index = self.number(1)?;
                    self.recall(index)?;
                }
                b'j' => {
                    let index = self.number(4)?;
                    self.recall(index)?;
                }
                opcode => {
                    let what = "expected lists, texts, numbers and names of functions only";
                    return Err(format!("the pickle's opcode {opcode:#04x} is not read: {what}"));
                }
            }
        }
    }
}

/// A number of numpy's by its type, as `i8`, and its bytes, little endian.
fn integer(kind: &str, bytes: &[Value]) -> Option<Value> {
    let signed = kind.starts_with('i');
    let size: usize = kind.strip_prefix(['i', 'u'])?.parse().ok()?;
    if size != bytes.len() || !(1..=8).contains(&size) {
        return None;
    }
    let raw = bytes.iter().rev().try_fold(0_u64, |number, byte| Some(number << 8 | byte.as_u64()?))?;
    let unused = 64 - 8 * size as u32;
    Some(if signed { ((raw << unused) as i64 >> unused).into() } else { raw.into() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::parse;

    proptest! {
        #[test]
        fn any_bytes_are_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
