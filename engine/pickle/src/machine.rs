//! The state of the operations: a stack of indices, and the objects that they refer to.

use std::collections::HashMap;

use crate::object::{Object, Pickled, Place};
use crate::{Beside, Options, Others, PickleError, Result, known};

/// The machine of one pickle.
pub(crate) struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    pub options: &'a Options,
    pub beside: Beside<'a>,
    pub objects: Vec<Object>,
    /// For each object, whether it contains a tensor or a storage.
    pub holds: Vec<bool>,
    stack: Vec<Place>,
    /// Heights of the stack at the marks.
    marks: Vec<u32>,
    memo: HashMap<u32, Place>,
    /// The number of bytes that may still be used.
    room: usize,
}

pub(crate) fn empty() -> PickleError {
    "the pickle takes a value that it does not have".into()
}

impl<'a> Machine<'a> {
    pub fn new(bytes: &'a [u8], options: &'a Options, beside: Beside<'a>) -> Self {
        Machine {
            bytes,
            at: 0,
            options,
            beside,
            objects: Vec::new(),
            holds: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            room: options.bytes,
        }
    }

    /// Runs the pickle; returns all objects, and the pickle's length in bytes.
    pub fn run(mut self) -> Result<(Pickled, usize)> {
        let root = self.carry_out()?;
        Ok((Pickled { objects: self.objects, root }, self.at))
    }

    pub fn take(&mut self, count: u64) -> Result<&'a [u8]> {
        let end = usize::try_from(count).ok().and_then(|count| self.at.checked_add(count));
        let end = end.filter(|end| *end <= self.bytes.len()).ok_or("the pickle ends early")?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// A little-endian number of up to eight bytes.
    pub fn number(&mut self, count: u64) -> Result<u64> {
        Ok(self.take(count)?.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    /// The bytes up to the end of a line.
    pub fn line(&mut self) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| *byte == b'\n').ok_or("the pickle ends early")?;
        self.at += length + 1;
        Ok(rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length]))
    }

    pub fn charge(&mut self, bytes: usize) -> Result<()> {
        let left = self.room.checked_sub(bytes);
        self.room =
            left.ok_or_else(|| format!("the values of the pickle take more than {} bytes", self.options.bytes))?;
        Ok(())
    }

    fn full(&self) -> PickleError {
        format!("the pickle has more than {} values", self.options.objects).into()
    }

    pub fn push(&mut self, object: Object) -> Result<()> {
        let place = Place::try_from(self.objects.len()).map_err(|_| self.full())?;
        if self.objects.len() >= self.options.objects {
            return Err(self.full());
        }
        self.charge(object.bytes())?;
        self.holds.push(self.holds_tensor(&object));
        self.objects.push(object);
        self.stack.push(place);
        Ok(())
    }

    /// Content of containers that are filled later is added there.
    fn holds_tensor(&self, object: &Object) -> bool {
        match object {
            Object::Tensor(_) | Object::Storage(_) => true,
            Object::Tuple(items) => self.any_holds(items),
            Object::List(items) | Object::Set(items) => self.any_holds(items),
            Object::Dict(entries) => entries.iter().any(|(key, value)| self.any_holds(&[*key, *value])),
            _ => false,
        }
    }

    fn any_holds(&self, items: &[Place]) -> bool {
        items.iter().any(|place| self.holds[*place as usize])
    }

    pub fn object(&self, place: Place) -> &Object {
        &self.objects[place as usize]
    }

    /// Replaces the object at an index, for all references.
    pub fn replace(&mut self, place: Place, object: Object) -> Result<()> {
        self.charge(object.bytes())?;
        self.holds[place as usize] = self.holds_tensor(&object);
        self.objects[place as usize] = object;
        Ok(())
    }

    /// Pushes an existing object.
    pub fn push_again(&mut self, place: Place) -> Result<()> {
        if self.stack.len() >= self.options.objects {
            return Err(self.full());
        }
        self.stack.push(place);
        Ok(())
    }

    /// The height below which nothing is popped.
    fn floor(&self) -> usize {
        self.marks.last().map_or(0, |mark| *mark as usize)
    }

    pub fn pop(&mut self) -> Result<Place> {
        match self.stack.len() > self.floor() {
            true => self.stack.pop().ok_or_else(empty),
            false => Err(empty()),
        }
    }

    pub fn top(&self) -> Result<Place> {
        self.stack[self.floor().min(self.stack.len())..].last().copied().ok_or_else(empty)
    }

    pub fn mark(&mut self) -> Result<()> {
        self.marks.push(u32::try_from(self.stack.len()).map_err(|_| self.full())?);
        Ok(())
    }

    /// Drops the last value, or the mark above it.
    pub fn drop_last(&mut self) -> Result<()> {
        match self.marks.last() {
            Some(mark) if *mark as usize == self.stack.len() => drop(self.marks.pop()),
            _ => drop(self.pop()?),
        }
        Ok(())
    }

    /// The values above the last mark.
    pub fn marked(&mut self) -> Result<Vec<Place>> {
        let mark = self.marks.pop().filter(|mark| *mark as usize <= self.stack.len());
        Ok(self.stack.split_off(mark.ok_or("the pickle has no mark where one is needed")? as usize))
    }

    pub fn tuple(&mut self, count: usize) -> Result<()> {
        let first = self.stack.len().checked_sub(count).filter(|first| *first >= self.floor()).ok_or_else(empty)?;
        let items = self.stack.split_off(first);
        self.push(Object::Tuple(items.into()))
    }

    pub fn append(&mut self, items: Vec<Place>) -> Result<()> {
        let top = self.top()?;
        self.charge(size_of_val(&items[..]))?;
        let holds = self.any_holds(&items);
        match &mut self.objects[top as usize] {
            Object::List(list) | Object::Set(list) => list.extend(items),
            Object::Foreign(foreign) if holds => return Err(hidden(&foreign.name)),
            // The items of a list subclass are not kept.
            Object::Foreign(_) => {}
            other => return Err(format!("the pickle appends to {}", other.kind()).into()),
        }
        self.holds[top as usize] |= holds;
        Ok(())
    }

    pub fn set(&mut self, items: &[Place]) -> Result<()> {
        let top = self.top()?;
        self.charge(size_of_val(items))?;
        let holds = self.any_holds(items);
        let entries = match &mut self.objects[top as usize] {
            Object::Dict(entries) => entries,
            Object::Foreign(foreign) if holds => return Err(hidden(&foreign.name)),
            Object::Foreign(foreign) => &mut foreign.fields,
            _ => return Err("the pickle sets a key of an object that is not a dictionary".into()),
        };
        if !items.len().is_multiple_of(2) {
            return Err("the pickle has a key without a value".into());
        }
        entries.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])));
        self.holds[top as usize] |= holds;
        Ok(())
    }

    pub fn global(&mut self, module: &str, name: &str) -> Result<()> {
        let name = format!("{module}.{name}");
        let allowed = known::is_known(&name)
            || match self.options.others {
                Others::Refused => false,
                Others::Named(fits) => fits(&name),
                Others::PassedOver => true,
            };
        match allowed && !known::runs(&name) {
            true => self.push(Object::Name(name.into())),
            false => Err(PickleError::Refused(name)),
        }
    }

    pub fn recall(&mut self, index: u32) -> Result<()> {
        let place = *self.memo.get(&index).ok_or("the pickle recalls what it did not store")?;
        self.push_again(place)
    }

    pub fn memoize(&mut self, index: u32) -> Result<()> {
        let place = self.top()?;
        self.memo.insert(index, place);
        Ok(())
    }

    /// The number of entries in the memo.
    pub fn memoized(&self) -> u32 {
        self.memo.len() as u32
    }
}

/// The error for tensors within an unread object, which would be lost.
pub(crate) fn hidden(name: &str) -> PickleError {
    format!("the pickle has tensors within {name}, which is not supported; save the network's state_dict() alone")
        .into()
}
