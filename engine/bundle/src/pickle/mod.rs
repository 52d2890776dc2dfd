//! Pickles of plain values and NumPy arrays, as data. A pickle is a small program; this machine knows
//! the operations that put values together, and the calls by which NumPy stores numbers and arrays.
//! Nothing is imported or called: a pickle that asks for anything else is refused.

mod numpy;
mod object;

use std::collections::HashMap;

pub(crate) use object::Pickled;
use object::{Number, Object, Place};

/// How many objects a pickle may have.
const MOST_OBJECTS: usize = 2_000_000;

/// How many bytes its objects may take together: a short pickle can ask for one thing many times.
const MOST_BYTES: usize = 256 << 20;

/// Parses the pickle at the beginning of `bytes`; what it holds, and how many bytes it has.
///
/// # Errors
/// What is damaged, ends early, or would call something.
pub(crate) fn parse(bytes: &[u8]) -> Result<(Pickled, usize), String> {
    let mut machine = Machine {
        bytes,
        at: 0,
        objects: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        room: MOST_BYTES,
    };
    let root = machine.run()?;
    Ok((Pickled { objects: machine.objects, root }, machine.at))
}

/// What the operations work on. Objects are in one list, and refer to each other by their places, so
/// that one that is changed after it was stored is changed for all.
struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    objects: Vec<Object>,
    stack: Vec<Place>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: HashMap<u64, Place>,
    /// Bytes that may still be taken.
    room: usize,
}

impl<'a> Machine<'a> {
    fn take(&mut self, count: u64) -> Result<&'a [u8], String> {
        let end = usize::try_from(count).ok().and_then(|count| self.at.checked_add(count));
        let end = end.filter(|end| *end <= self.bytes.len()).ok_or("the pickle ends early")?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// A little-endian number of up to eight bytes.
    fn number(&mut self, count: u64) -> Result<u64, String> {
        Ok(self.take(count)?.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    fn line(&mut self) -> Result<String, String> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| *byte == b'\n').ok_or("the pickle ends early")?;
        let line = std::str::from_utf8(&rest[..length]).map_err(|_| "the pickle has a line that is no text")?;
        self.at += length + 1;
        Ok(line.trim_end_matches('\r').to_owned())
    }

    fn charge(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.room.checked_sub(bytes);
        self.room = left.ok_or_else(|| format!("the values of the pickle take more than {MOST_BYTES} bytes"))?;
        Ok(())
    }

    fn push(&mut self, object: Object) -> Result<(), String> {
        if self.objects.len() >= MOST_OBJECTS {
            return Err(format!("the pickle has more than {MOST_OBJECTS} values"));
        }
        self.charge(object.bytes())?;
        self.stack.push(self.objects.len());
        self.objects.push(object);
        Ok(())
    }

    fn pop(&mut self) -> Result<Place, String> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.len() > floor {
            true => self.stack.pop().ok_or_else(empty),
            false => Err(empty()),
        }
    }

    /// The values above the last mark.
    fn marked(&mut self) -> Result<Vec<Place>, String> {
        let mark = self.marks.pop().filter(|mark| *mark <= self.stack.len());
        Ok(self.stack.split_off(mark.ok_or("the pickle has no mark where one is needed")?))
    }

    fn tuple(&mut self, count: usize) -> Result<(), String> {
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(self.pop()?);
        }
        items.reverse();
        self.push(Object::Tuple(items))
    }

    fn top(&mut self) -> Result<&mut Object, String> {
        let place = *self.stack.last().ok_or_else(empty)?;
        Ok(&mut self.objects[place])
    }

    fn append(&mut self, items: Vec<Place>) -> Result<(), String> {
        self.charge(size_of_val(&items[..]))?;
        match self.top()? {
            Object::List(list) | Object::Set(list) => list.extend(items),
            other => return Err(format!("the pickle appends to {}", other.kind())),
        }
        Ok(())
    }

    fn set(&mut self, items: &[Place]) -> Result<(), String> {
        self.charge(size_of_val(items))?;
        let Object::Dict(entries) = self.top()? else {
            return Err("the pickle sets a key of what is no dictionary".to_owned());
        };
        if !items.len().is_multiple_of(2) {
            return Err("the pickle has a key without a value".to_owned());
        }
        entries.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])));
        Ok(())
    }

    fn text(&mut self, length: u64) -> Result<(), String> {
        let bytes = self.take(length)?;
        // Lone surrogates, which Python allows, are no text here.
        let text = std::str::from_utf8(bytes).map_err(|_| "the pickle has a text that is not UTF-8")?;
        self.push(Object::Text(text.to_owned()))
    }

    fn bytes(&mut self, length: u64) -> Result<(), String> {
        let bytes = self.take(length)?.to_vec();
        self.push(Object::Bytes(bytes))
    }

    /// A whole number of any size, little-endian in two's complement.
    fn long(&mut self, length: u64) -> Result<(), String> {
        let bytes = self.take(length)?;
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let object = match bytes.len() {
            0..=8 => {
                let fill = if negative { u64::MAX } else { 0 };
                let number = bytes.iter().rev().fold(fill, |number, byte| (number << 8) | u64::from(*byte));
                Object::Number(Number::Int(number as i64))
            }
            _ => Object::Large(bytes.to_vec()),
        };
        self.push(object)
    }

    fn global(&mut self, module: &str, name: &str) -> Result<(), String> {
        let name = format!("{module}.{name}");
        match numpy::is_known(&name) {
            true => self.push(Object::Name(name)),
            false => Err(format!(
                "the pickle asks Python for {name}, which plain values and arrays do not need; nothing was executed"
            )),
        }
    }

    fn recall(&mut self, index: u64) -> Result<(), String> {
        let place = *self.memo.get(&index).ok_or("the pickle recalls what it did not store")?;
        self.stack.push(place);
        if self.stack.len() > MOST_OBJECTS {
            return Err(format!("the pickle has more than {MOST_OBJECTS} values"));
        }
        Ok(())
    }

    fn memoize(&mut self, index: u64) -> Result<(), String> {
        let place = *self.stack.last().ok_or_else(empty)?;
        self.memo.insert(index, place);
        Ok(())
    }

    fn parsed<T: std::str::FromStr>(line: &str) -> Result<T, String> {
        line.trim_end_matches('L').parse().map_err(|_| format!("the pickle has the number {line:?}"))
    }

    fn run(&mut self) -> Result<Place, String> {
        loop {
            match self.take(1)?[0] {
                0x80 => drop(self.take(1)?),
                0x95 => drop(self.take(8)?),
                b'.' => return self.pop(),
                b'(' => self.marks.push(self.stack.len()),
                b'0' => drop(self.pop()?),
                b'1' => drop(self.marked()?),
                b'2' => {
                    let place = *self.stack.last().ok_or_else(empty)?;
                    self.stack.push(place);
                }
                b'N' => self.push(Object::None)?,
                0x88 => self.push(Object::Number(Number::Bool(true)))?,
                0x89 => self.push(Object::Number(Number::Bool(false)))?,
                b'I' => {
                    let number = match self.line()?.as_str() {
                        "00" => Number::Bool(false),
                        "01" => Number::Bool(true),
                        line => Number::Int(Self::parsed(line)?),
                    };
                    self.push(Object::Number(number))?;
                }
                b'L' => {
                    let number = Self::parsed(&self.line()?)?;
                    self.push(Object::Number(Number::Int(number)))?;
                }
                b'F' => {
                    let number = Self::parsed(&self.line()?)?;
                    self.push(Object::Number(Number::Float(number)))?;
                }
                b'K' => {
                    let number = self.number(1)? as i64;
                    self.push(Object::Number(Number::Int(number)))?;
                }
                b'M' => {
                    let number = self.number(2)? as i64;
                    self.push(Object::Number(Number::Int(number)))?;
                }
                b'J' => {
                    let number = i64::from(self.number(4)? as u32 as i32);
                    self.push(Object::Number(Number::Int(number)))?;
                }
                b'G' => {
                    let number = f64::from_bits(self.number(8)?.swap_bytes());
                    self.push(Object::Number(Number::Float(number)))?;
                }
                0x8a => {
                    let length = self.number(1)?;
                    self.long(length)?;
                }
                0x8b => {
                    let length = self.number(4)?;
                    self.long(length)?;
                }
                0x8c => {
                    let length = self.number(1)?;
                    self.text(length)?;
                }
                b'X' => {
                    let length = self.number(4)?;
                    self.text(length)?;
                }
                0x8d => {
                    let length = self.number(8)?;
                    self.text(length)?;
                }
                b'C' | b'U' => {
                    let length = self.number(1)?;
                    self.bytes(length)?;
                }
                b'B' | b'T' => {
                    let length = self.number(4)?;
                    self.bytes(length)?;
                }
                0x8e | 0x96 => {
                    let length = self.number(8)?;
                    self.bytes(length)?;
                }
                b')' => self.push(Object::Tuple(Vec::new()))?,
                0x85 => self.tuple(1)?,
                0x86 => self.tuple(2)?,
                0x87 => self.tuple(3)?,
                b't' => {
                    let items = self.marked()?;
                    self.push(Object::Tuple(items))?;
                }
                b']' => self.push(Object::List(Vec::new()))?,
                b'l' => {
                    let items = self.marked()?;
                    self.push(Object::List(items))?;
                }
                b'a' => {
                    let item = self.pop()?;
                    self.append(vec![item])?;
                }
                b'e' | 0x90 => {
                    let items = self.marked()?;
                    self.append(items)?;
                }
                0x8f => self.push(Object::Set(Vec::new()))?,
                0x91 => {
                    let items = self.marked()?;
                    self.push(Object::Set(items))?;
                }
                b'}' => self.push(Object::Dict(Vec::new()))?,
                b'd' => {
                    let items = self.marked()?;
                    self.push(Object::Dict(Vec::new()))?;
                    self.set(&items)?;
                }
                b's' => {
                    let (value, key) = (self.pop()?, self.pop()?);
                    self.set(&[key, value])?;
                }
                b'u' => {
                    let items = self.marked()?;
                    self.set(&items)?;
                }
                b'c' => {
                    let (module, name) = (self.line()?, self.line()?);
                    self.global(&module, &name)?;
                }
                0x93 => {
                    let (name, module) = (self.pop()?, self.pop()?);
                    let (Object::Text(module), Object::Text(name)) = (&self.objects[module], &self.objects[name])
                    else {
                        return Err("the pickle names a function by what is no text".to_owned());
                    };
                    let (module, name) = (module.clone(), name.clone());
                    self.global(&module, &name)?;
                }
                b'R' => {
                    let (arguments, function) = (self.pop()?, self.pop()?);
                    let made = numpy::call(&self.objects, function, arguments)?;
                    self.push(made)?;
                }
                b'b' => {
                    let state = self.pop()?;
                    if let Some(built) = numpy::build(&self.objects, *self.stack.last().ok_or_else(empty)?, state)? {
                        self.charge(built.bytes())?;
                        *self.top()? = built;
                    }
                }
                b'Q' => {
                    // A storage of a tensor lies beside the pickle: what is made of it is only named.
                    self.pop()?;
                    self.push(Object::Name(numpy::STORAGE.to_owned()))?;
                }
                b'q' => {
                    let index = self.number(1)?;
                    self.memoize(index)?;
                }
                b'r' => {
                    let index = self.number(4)?;
                    self.memoize(index)?;
                }
                b'p' => {
                    let index = Self::parsed(&self.line()?)?;
                    self.memoize(index)?;
                }
                0x94 => self.memoize(self.memo.len() as u64)?,
                b'h' => {
                    let index = self.number(1)?;
                    self.recall(index)?;
                }
                b'j' => {
                    let index = self.number(4)?;
                    self.recall(index)?;
                }
                b'g' => {
                    let index = Self::parsed(&self.line()?)?;
                    self.recall(index)?;
                }
                opcode => {
                    let what = "only plain values and NumPy arrays are read";
                    return Err(format!("the pickle has the operation {opcode:#04x}; {what}"));
                }
            }
        }
    }
}

fn empty() -> String {
    "the pickle takes a value that it does not have".to_owned()
}
