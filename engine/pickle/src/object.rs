//! The content of a pickle.

use std::sync::Arc;

use crate::tensor::{Storage, Tensor};

/// The index of an object in the list of all objects.
pub type Place = u32;

/// A number of Python or NumPy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// `True` or `False`.
    Bool(bool),
    /// A whole number of up to 64 bits.
    Int(i64),
    /// A real number.
    Float(f64),
}

/// A type of NumPy numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    /// `f`, `i`, `u` or `b`.
    pub kind: char,
    /// The size of a number in bytes.
    pub size: usize,
    /// Whether the byte order is big-endian.
    pub big: bool,
}

/// A NumPy array. The number of bytes matches shape and type.
#[derive(Clone, Debug)]
pub struct Array {
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// The type of its numbers.
    pub of: Type,
    /// Whether the first axis runs fastest.
    pub columns: bool,
    /// The numbers.
    pub bytes: Box<[u8]>,
}

/// An object of an unknown function or class.
#[derive(Clone, Debug, Default)]
pub struct Foreign {
    /// Module and name.
    pub name: String,
    /// Names and values of its fields, as of a dataclass, or the items of a dictionary subclass.
    pub fields: Vec<(Place, Place)>,
}

/// An object of a pickle.
#[derive(Clone, Debug)]
pub enum Object {
    /// `None`.
    None,
    /// A number.
    Number(Number),
    /// A whole number of more than 64 bits, little-endian in two's complement.
    Large(Box<[u8]>),
    /// A text.
    Text(Box<str>),
    /// Bytes, or a text of Python 2.
    Bytes(Box<[u8]>),
    /// A tuple.
    Tuple(Box<[Place]>),
    /// A list.
    List(Vec<Place>),
    /// A set, in the order in which the elements were added.
    Set(Vec<Place>),
    /// A dictionary (or `OrderedDict`), in the order in which the items were added. Of two items
    /// with the same key the later one is used.
    Dict(Vec<(Place, Place)>),
    /// A function or class: module and name.
    Name(Box<str>),
    /// A type of numbers.
    Type(Type),
    /// An array without its values.
    Hollow,
    /// An array.
    Array(Box<Array>),
    /// A storage of tensor values.
    Storage(Arc<Storage>),
    /// A tensor.
    Tensor(Arc<Tensor>),
    /// An object that is not read.
    Foreign(Box<Foreign>),
}

impl Object {
    /// Its approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let more = match self {
            Object::Text(text) | Object::Name(text) => text.len(),
            Object::Bytes(bytes) | Object::Large(bytes) => bytes.len(),
            Object::Tuple(items) => size_of_val(&items[..]),
            Object::List(items) | Object::Set(items) => size_of_val(&items[..]),
            Object::Dict(entries) => size_of_val(&entries[..]),
            Object::Array(array) => size_of::<Array>() + size_of_val(&array.shape[..]) + array.bytes.len(),
            Object::Foreign(foreign) => size_of::<Foreign>() + foreign.name.len() + size_of_val(&foreign.fields[..]),
            Object::Storage(storage) => size_of::<Storage>() + storage.key.len(),
            Object::Tensor(tensor) => size_of::<Tensor>() + 2 * size_of_val(&tensor.shape[..]),
            Object::None | Object::Number(_) | Object::Type(_) | Object::Hollow => 0,
        };
        size_of::<Object>() + more
    }

    /// The kind of object, for messages.
    pub fn kind(&self) -> String {
        let kind = match self {
            Object::None => "None",
            Object::Number(_) | Object::Large(_) => "a number",
            Object::Text(_) => "a text",
            Object::Bytes(_) => "bytes",
            Object::Tuple(_) => "a tuple",
            Object::List(_) => "a list",
            Object::Set(_) => "a set",
            Object::Dict(_) => "a dictionary",
            Object::Type(_) => "a type of numbers",
            Object::Hollow | Object::Array(_) => "an array",
            Object::Storage(_) => "a storage",
            Object::Tensor(_) => "a tensor",
            Object::Name(name) => name,
            Object::Foreign(foreign) => &foreign.name,
        };
        kind.to_owned()
    }

    /// The text; also bytes of Python 2 that are a text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Object::Text(text) => Some(text),
            Object::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// A length or an offset.
    pub(crate) fn size(&self) -> Option<usize> {
        match self {
            Object::Number(Number::Int(size)) => usize::try_from(*size).ok(),
            _ => None,
        }
    }
}

/// All objects of a pickle.
#[derive(Clone, Debug)]
pub struct Pickled {
    pub(crate) objects: Vec<Object>,
    pub(crate) root: Place,
}

impl Pickled {
    /// The object that was pickled.
    pub fn root(&self) -> &Object {
        self.get(self.root)
    }

    /// The object at an index.
    pub fn get(&self, place: Place) -> &Object {
        &self.objects[place as usize]
    }

    /// The text at an index, if the object is one.
    pub fn text(&self, place: Place) -> Option<&str> {
        self.get(place).text()
    }

    /// All objects, including those that are not reachable from the root.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// The whole number, little-endian in two's complement, if the object is one.
    pub fn whole(&self) -> Option<Vec<u8>> {
        match self.root() {
            Object::Number(Number::Int(number)) => Some(number.to_le_bytes().to_vec()),
            Object::Large(bytes) => Some(bytes.to_vec()),
            _ => None,
        }
    }
}
