//! The calls by which Python stores its own objects, and the handling of unknown calls.

use crate::known::canonical;
use crate::machine::{Machine, hidden};
use crate::object::{Foreign, Object, Place};
use crate::tensor::{self, Rebuild};
use crate::{Others, Result, numpy};

/// The largest number of classes nested around a tensor.
const MOST_WRAPPERS: usize = 4;

/// The result of a call.
pub(crate) enum Made {
    New(Object),
    /// One of the call's arguments.
    Same(Place),
}

impl Machine<'_> {
    /// Carries out a call of a function or class with a tuple of arguments, and possibly a
    /// dictionary of named ones.
    pub fn call(&mut self, function: Place, arguments: Place, named: Option<Place>) -> Result<()> {
        if let Some(named) = named {
            // Known functions take no named arguments.
            let name = self.object(function).kind();
            return match self.holds[named as usize] || self.holds[arguments as usize] {
                true => Err(hidden(&name)),
                false => self.stranger(&name, Vec::new()),
            };
        }
        match self.made(function, arguments)? {
            Some(Made::New(object)) => self.push(object),
            Some(Made::Same(place)) => self.push_again(place),
            None if self.holds[arguments as usize] => Err(hidden(&self.object(function).kind())),
            None => {
                let (name, fields) = self.class_of(function, arguments);
                self.stranger(&name, fields)
            }
        }
    }

    /// The class and the items of a call's result. Protocols 0 and 1 create all objects by one
    /// function: from their class, a built-in base class, and its content.
    fn class_of(&self, function: Place, arguments: Place) -> (String, Vec<(Place, Place)>) {
        let name = self.object(function).kind();
        match self.object(arguments) {
            Object::Tuple(given) if given.len() == 3 && canonical(&name) == "copyreg._reconstructor" => {
                let items = match self.object(given[2]) {
                    Object::Dict(items) => items.clone(),
                    _ => Vec::new(),
                };
                (self.object(given[0]).kind(), items)
            }
            _ => (name, Vec::new()),
        }
    }

    /// Creates the result of an unknown call.
    fn stranger(&mut self, name: &str, fields: Vec<(Place, Place)>) -> Result<()> {
        // Besides tensors, PyTorch has devices, types and layouts.
        match matches!(self.options.others, Others::PassedOver) || name.starts_with("torch.") {
            true => self.push(Object::Foreign(Box::new(Foreign { name: name.to_owned(), fields }))),
            false => Err(format!("the pickle calls {name} with unsupported arguments; nothing was executed").into()),
        }
    }

    /// The result of a known call.
    fn made(&self, mut function: Place, mut arguments: Place) -> Result<Option<Made>> {
        for _ in 0..MOST_WRAPPERS {
            let (Object::Name(name), Object::Tuple(given)) = (self.object(function), self.object(arguments)) else {
                return Ok(None);
            };
            let name = canonical(name);
            if name == "torch._tensor._rebuild_from_type_v2" {
                // A tensor subclass: a function, the class, arguments, attributes. Only the tensor
                // is used.
                let [inner, _, parts, state] = given[..] else { return Ok(None) };
                if self.holds[state as usize] {
                    return Err(hidden("the attributes of a tensor"));
                }
                (function, arguments) = (inner, parts);
                continue;
            }
            let kind = match &*name {
                "torch._utils._rebuild_tensor" => Some(Rebuild::First),
                "torch._utils._rebuild_tensor_v2" => Some(Rebuild::Second),
                "torch._utils._rebuild_tensor_v3" => Some(Rebuild::Third),
                _ => None,
            };
            if let Some(kind) = kind {
                return tensor::rebuild(self, given, kind).map(|tensor| Some(Made::New(Object::Tensor(tensor))));
            }
            if name.starts_with("torch._utils._rebuild_parameter") {
                let [data, rest @ ..] = &given[..] else { return Ok(None) };
                return match rest.iter().any(|place| self.holds[*place as usize]) {
                    true => Err(hidden("the attributes of a parameter")),
                    false => Ok(Some(Made::Same(*data))),
                };
            }
            let given: Vec<&Object> = given.iter().take(8).map(|place| self.object(*place)).collect();
            let made = match name.starts_with("numpy.") {
                true if self.options.numpy => Some(numpy::call(self, &name, &given)?),
                true => None,
                false => self.plain(&name, &given)?,
            };
            return Ok(made.map(Made::New));
        }
        Ok(None)
    }

    /// Python's own objects.
    fn plain(&self, name: &str, given: &[&Object]) -> Result<Option<Object>> {
        let latin = |code: &&Object| matches!(code, Object::Text(code) if matches!(&**code, "latin1" | "latin-1"));
        Ok(Some(match (name, given) {
            // A text that encodes bytes, one per character.
            ("_codecs.encode" | "builtins.bytes" | "builtins.bytearray", [Object::Text(text), code]) if latin(code) => {
                let bytes: Option<Box<[u8]>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
                Object::Bytes(bytes.ok_or("the pickle has bytes above 255")?)
            }
            ("builtins.bytes" | "builtins.bytearray", []) => Object::Bytes(Box::default()),
            ("builtins.bytes" | "builtins.bytearray", [Object::Bytes(bytes)]) => Object::Bytes(bytes.clone()),
            ("builtins.set" | "builtins.frozenset", []) => Object::Set(Vec::new()),
            ("builtins.set" | "builtins.frozenset", [Object::List(items)]) => Object::Set(items.clone()),
            ("builtins.set" | "builtins.frozenset", [Object::Tuple(items)]) => Object::Set(items.to_vec()),
            ("collections.OrderedDict" | "collections.Counter", []) | ("collections.defaultdict", [] | [_]) => {
                Object::Dict(Vec::new())
            }
            ("collections.Counter", [Object::Dict(entries)]) => Object::Dict(entries.clone()),
            ("collections.OrderedDict", [Object::List(items)]) => {
                let pair = |place: &Place| match self.object(*place) {
                    Object::List(pair) => <[Place; 2]>::try_from(&pair[..]).ok(),
                    Object::Tuple(pair) => <[Place; 2]>::try_from(&pair[..]).ok(),
                    _ => None,
                };
                let pairs: Option<Vec<_>> =
                    items.iter().map(|item| pair(item).map(|[key, value]| (key, value))).collect();
                Object::Dict(pairs.ok_or("the pickle has an OrderedDict whose items are not pairs")?)
            }
            ("torch.Size", [Object::List(items)]) => Object::Tuple(items.clone().into()),
            ("torch.Size", [Object::Tuple(items)]) => Object::Tuple(items.clone()),
            _ => return Ok(None),
        }))
    }
}
