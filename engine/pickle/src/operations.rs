//! The operations, by their bytes (Python's `pickletools`).

use crate::machine::Machine;
use crate::object::{Number, Object, Place};
use crate::tensor::Storage;
use crate::{Beside, PickleError, Result, line};

impl Machine<'_> {
    fn int(&mut self, number: i64) -> Result<()> {
        self.push(Object::Number(Number::Int(number)))
    }

    fn text(&mut self, width: u64) -> Result<()> {
        let length = self.number(width)?;
        // Lone surrogates, which Python allows, are not text in Rust.
        let text = std::str::from_utf8(self.take(length)?).map_err(|_| "the pickle has a text that is not UTF-8")?;
        self.push(Object::Text(text.into()))
    }

    fn raw(&mut self, width: u64) -> Result<()> {
        let length = self.number(width)?;
        let bytes = self.take(length)?;
        self.push(Object::Bytes(bytes.into()))
    }

    /// A whole number of any size, little-endian in two's complement.
    fn long(&mut self, width: u64) -> Result<()> {
        let length = self.number(width)?;
        let bytes = self.take(length)?;
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        match bytes.len() {
            0..=8 => {
                let fill = if negative { u64::MAX } else { 0 };
                self.int(bytes.iter().rev().fold(fill, |number, byte| (number << 8) | u64::from(*byte)) as i64)
            }
            _ => self.push(Object::Large(bytes.into())),
        }
    }

    /// A whole number in decimal. Beyond 64 bits it is kept as large, without its value.
    fn decimal(&mut self) -> Result<()> {
        let digits = self.line()?;
        match line::parsed(digits) {
            Ok(number) => self.int(number),
            Err(_) if line::is_whole(digits) => self.push(Object::Large(Box::default())),
            Err(error) => Err(error),
        }
    }

    fn named_on_stack(&mut self) -> Result<()> {
        let (name, module) = (self.pop()?, self.pop()?);
        let (Object::Text(module), Object::Text(name)) = (self.object(module), self.object(name)) else {
            return Err("the pickle names a function by a value that is not text".into());
        };
        let (module, name) = (module.clone(), name.clone());
        self.global(&module, &name)
    }

    /// Pushes the object outside the pickle with this id.
    fn beside(&mut self, id: Place) -> Result<()> {
        let found = match self.beside {
            Beside::Storages => Object::Storage(Storage::named(self, id)?),
            Beside::Tensors(tensors) => {
                let key = match self.object(id) {
                    Object::Number(Number::Int(key)) => key.to_string(),
                    other => other.text().unwrap_or_default().to_owned(),
                };
                let tensor = tensors
                    .get(&key)
                    .ok_or_else(|| format!("the pickle refers to tensor {key:?}, which is missing"))?;
                Object::Tensor(tensor.clone())
            }
        };
        self.push(found)
    }

    fn at(&mut self, width: u64) -> Result<u32> {
        Ok(self.number(width)? as u32)
    }

    /// Carries out operations up to the last; returns the index of the root.
    pub fn carry_out(&mut self) -> Result<Place> {
        loop {
            match self.take(1)?[0] {
                b'.' => return self.pop(),
                0x80 => {
                    let protocol = self.number(1)?;
                    if protocol > 5 {
                        return Err(format!("the pickle has protocol {protocol}; 0 to 5 are supported").into());
                    }
                }
                // Frames only matter for buffered reading.
                0x95 => drop(self.take(8)?),
                opcode => self.one(opcode)?,
            }
        }
    }

    fn one(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            b'(' => self.mark(),
            b'0' => self.drop_last(),
            b'1' => self.marked().map(drop),
            b'2' => {
                let place = self.top()?;
                self.push_again(place)
            }
            b'N' => self.push(Object::None),
            0x88 => self.push(Object::Number(Number::Bool(true))),
            0x89 => self.push(Object::Number(Number::Bool(false))),
            b'I' => {
                let digits = self.line()?;
                match digits {
                    b"00" => self.push(Object::Number(Number::Bool(false))),
                    b"01" => self.push(Object::Number(Number::Bool(true))),
                    _ => self.int(line::parsed(digits)?),
                }
            }
            b'L' => self.decimal(),
            b'F' => {
                let number = line::parsed(self.line()?)?;
                self.push(Object::Number(Number::Float(number)))
            }
            b'K' => {
                let number = self.number(1)? as i64;
                self.int(number)
            }
            b'M' => {
                let number = self.number(2)? as i64;
                self.int(number)
            }
            b'J' => {
                let number = i64::from(self.number(4)? as u32 as i32);
                self.int(number)
            }
            b'G' => {
                let number = f64::from_bits(self.number(8)?.swap_bytes());
                self.push(Object::Number(Number::Float(number)))
            }
            0x8a => self.long(1),
            0x8b => self.long(4),
            0x8c => self.text(1),
            b'X' => self.text(4),
            0x8d => self.text(8),
            b'V' => {
                let text = line::unescaped(self.line()?)?;
                self.push(Object::Text(text.into()))
            }
            b'S' => {
                let bytes = line::quoted(self.line()?)?;
                self.push(Object::Bytes(bytes.into()))
            }
            b'C' | b'U' => self.raw(1),
            b'B' | b'T' => self.raw(4),
            0x8e | 0x96 => self.raw(8),
            b')' => self.push(Object::Tuple(Box::default())),
            0x85 => self.tuple(1),
            0x86 => self.tuple(2),
            0x87 => self.tuple(3),
            b't' => {
                let items = self.marked()?;
                self.push(Object::Tuple(items.into()))
            }
            b']' => self.push(Object::List(Vec::new())),
            b'l' => {
                let items = self.marked()?;
                self.push(Object::List(items))
            }
            b'a' => {
                let item = self.pop()?;
                self.append(vec![item])
            }
            b'e' | 0x90 => {
                let items = self.marked()?;
                self.append(items)
            }
            0x8f => self.push(Object::Set(Vec::new())),
            0x91 => {
                let items = self.marked()?;
                self.push(Object::Set(items))
            }
            b'}' => self.push(Object::Dict(Vec::new())),
            b'd' => {
                let items = self.marked()?;
                self.push(Object::Dict(Vec::new()))?;
                self.set(&items)
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(&[key, value])
            }
            b'u' => {
                let items = self.marked()?;
                self.set(&items)
            }
            b'c' => {
                let (module, name) = (line::text(self.line()?)?, line::text(self.line()?)?);
                self.global(module, name)
            }
            0x93 => self.named_on_stack(),
            b'R' | 0x81 => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                self.call(function, arguments, None)
            }
            0x92 => {
                let (named, arguments, function) = (self.pop()?, self.pop()?, self.pop()?);
                self.call(function, arguments, Some(named))
            }
            b'b' => {
                let state = self.pop()?;
                self.build(state)
            }
            b'Q' => {
                let id = self.pop()?;
                self.beside(id)
            }
            b'P' => {
                let id = line::text(self.line()?)?;
                self.push(Object::Text(id.into()))?;
                let id = self.pop()?;
                self.beside(id)
            }
            b'q' => {
                let index = self.at(1)?;
                self.memoize(index)
            }
            b'r' => {
                let index = self.at(4)?;
                self.memoize(index)
            }
            b'p' => {
                let index = line::parsed(self.line()?)?;
                self.memoize(index)
            }
            0x94 => self.memoize(self.memoized()),
            b'h' => {
                let index = self.at(1)?;
                self.recall(index)
            }
            b'j' => {
                let index = self.at(4)?;
                self.recall(index)
            }
            b'g' => {
                let index = line::parsed(self.line()?)?;
                self.recall(index)
            }
            opcode => Err(PickleError::Invalid(format!(
                "the pickle has the operation {opcode:#04x}; only plain values and NumPy arrays are supported"
            ))),
        }
    }
}
