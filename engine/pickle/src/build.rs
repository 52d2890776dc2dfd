//! Applies states to objects (the operation `BUILD`).

use std::collections::HashSet;

use crate::machine::{Machine, hidden};
use crate::object::{Object, Place};
use crate::{Others, Result, numpy};

/// The tables that every `torch.nn.Module` has.
const TABLES: [&str; 3] = ["_parameters", "_buffers", "_modules"];

impl Machine<'_> {
    /// Applies a state to the last value.
    pub fn build(&mut self, state: Place) -> Result<()> {
        let place = self.top()?;
        let built = match (self.object(place), self.object(state)) {
            (Object::Type(of), Object::Tuple(state)) => numpy::ordered(self, *of, state)?,
            (Object::Hollow, Object::Tuple(state)) => numpy::filled(self, state)?,
            (Object::Foreign(foreign), Object::Dict(fields)) => match self.module(fields)? {
                Some(tables) => Object::Dict(self.state_dict(tables)?),
                None if self.holds[state as usize] => return Err(hidden(&foreign.name)),
                None => {
                    let mut foreign = foreign.clone();
                    foreign.fields.extend(fields);
                    Object::Foreign(foreign)
                }
            },
            // Attributes, which are not part of the value.
            (Object::Foreign(_) | Object::Dict(_) | Object::List(_) | Object::Set(_) | Object::Tensor(_), _) => {
                return match self.holds[state as usize] {
                    true => Err(hidden(&format!("the attributes of {}", self.object(place).kind()))),
                    false => Ok(()),
                };
            }
            (Object::Name(_), _) if matches!(self.options.others, Others::PassedOver) => return Ok(()),
            (other, _) => {
                return Err(format!("the pickle changes the state of {}, which is not supported", other.kind()).into());
            }
        };
        self.replace(place, built)
    }

    /// The value of the last item with this key.
    fn item(&self, entries: &[(Place, Place)], key: &str) -> Option<Place> {
        let fits = |entry: &&(Place, Place)| self.object(entry.0).text() == Some(key);
        entries.iter().rev().find(fits).map(|entry| entry.1)
    }

    /// The tables of a module, if the state is that of a module; its class does not matter.
    fn module(&self, fields: &[(Place, Place)]) -> Result<Option<Module<'_>>> {
        let table = |name: &str| match self.object(self.item(fields, name)?) {
            Object::Dict(entries) => Some(&entries[..]),
            _ => None,
        };
        let tables: Option<Vec<_>> = TABLES.iter().map(|name| table(name)).collect();
        let Some(tables) = tables else { return Ok(None) };
        let passing = match self.item(fields, "_non_persistent_buffers_set").map(|place| self.object(place)) {
            None => HashSet::new(),
            Some(Object::Set(names) | Object::List(names)) => {
                names.iter().filter_map(|name| self.object(*name).text()).collect()
            }
            Some(other) => {
                return Err(format!("the pickle has a module whose non-persistent buffers are {}", other.kind()).into());
            }
        };
        Ok(Some(Module { tables, passing }))
    }

    /// The content of a module's `state_dict()`: parameters, buffers and the same of its children,
    /// without `None` values and without buffers that are not saved. Other attributes are not
    /// weights.
    fn state_dict(&self, module: Module<'_>) -> Result<Vec<(Place, Place)>> {
        let mut made = Vec::new();
        let mut names = HashSet::new();
        for (table, entries) in TABLES.iter().zip(&module.tables) {
            for (key, value) in *entries {
                let name = self.object(*key).text().ok_or("the pickle has a module with a part without a name")?;
                if matches!(self.object(*value), Object::None)
                    || (*table == "_buffers" && module.passing.contains(name))
                {
                    continue;
                }
                if !names.insert(name) {
                    return Err(format!("the pickle has a module with two parts named {name}").into());
                }
                made.push((*key, *value));
            }
        }
        Ok(made)
    }
}

/// The state of a module.
struct Module<'a> {
    tables: Vec<&'a [(Place, Place)]>,
    /// The names of buffers that are not saved.
    passing: HashSet<&'a str>,
}
