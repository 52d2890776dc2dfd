//! [`Registry`]: all entries of a kind.

use std::any::TypeId;

use serde::Deserialize;

use crate::component::is_of_a_plugin;
use crate::entry::{Entry, FromPlugin, Kind, Registration};
use crate::fault::Fault;
use crate::monai::{explained, last_part};
use crate::nearest::nearest;
use crate::node::{Node, Origin, Value};
use crate::parameters::table;

/// All entries of a kind that are linked into the program, sorted by name: `Registry::<dyn Loss>::new()`.
/// The [crate](crate) has an example.
pub struct Registry<T: Kind + ?Sized> {
    entries: Vec<&'static Entry<T>>,
}

/// The indices that sort the names. Not generic: sorting compiles to 6 kB of code for each type.
fn alphabetical(names: &[&str]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..names.len()).collect();
    places.sort_by_cached_key(|place| (names[*place].to_lowercase(), names[*place]));
    places
}

impl<T: Kind + ?Sized> Default for Registry<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Kind + ?Sized> Registry<T> {
    /// Collects the entries.
    pub fn new() -> Self {
        let mine = |found: &&Registration| found.kind == TypeId::of::<T>();
        let all = inventory::iter::<Registration>().filter(mine);
        let found: Vec<&'static Entry<T>> = all.filter_map(|found| found.entry.downcast_ref()).collect();
        let names: Vec<&str> = found.iter().map(|entry| entry.name).collect();
        Self { entries: alphabetical(&names).into_iter().map(|place| found[place]).collect() }
    }

    /// The entries.
    pub fn entries(&self) -> &[&'static Entry<T>] {
        &self.entries
    }

    /// The names of the entries.
    pub fn names(&self) -> Vec<&'static str> {
        self.entries.iter().map(|entry| entry.name).collect()
    }

    /// The entry that a name means; of a dotted name of MONAI, PyTorch or ignite the last part counts.
    pub fn find(&self, name: &str) -> Option<&'static Entry<T>> {
        let name = last_part(name);
        let exact = |entry: &&&'static Entry<T>| entry.name == name || entry.aliases.contains(&name);
        let spelt = |entry: &&&'static Entry<T>| {
            T::is_spelt(entry.name, name) || entry.aliases.iter().any(|alias| T::is_spelt(alias, name))
        };
        self.entries.iter().find(exact).or_else(|| self.entries.iter().find(spelt)).copied()
    }

    /// The entry that the `name` of a table means.
    ///
    /// # Errors
    /// When the name is missing or unknown.
    pub fn entry(&self, node: &Node) -> Result<&'static Entry<T>, Fault> {
        if !node.is_table() {
            return Err(Fault::on(
                node,
                format!("expected a table with the `{}` of a {}, not {}", T::TAG, T::WORD, node.kind()),
            ));
        }
        let Some(named) = node.get(T::TAG) else {
            let missing = || format!("the table has no `{}`: it says which {} is meant", T::TAG, T::WORD);
            return T::DEFAULT.and_then(|name| self.find(name)).ok_or_else(|| Fault::on(node, missing()));
        };
        let Some(name) = named.as_str() else {
            return Err(
                Fault::at(T::TAG, format!("expected the name of a {}, not {}", T::WORD, named.kind())).within(node)
            );
        };
        self.find(name).ok_or_else(|| {
            if let Some(meaning) = explained(T::WORD, name) {
                return Fault::at(T::TAG, format!("unknown {} {name:?}: {meaning}", T::WORD)).within(node);
            }
            let names = self.names();
            let near = nearest(name, names.iter().copied());
            let list = if near.is_none() { format!("; known are {}", names.join(", ")) } else { String::new() };
            Fault::at(T::TAG, format!("unknown {} {name:?}{list}", T::WORD)).meaning(near).within(node)
        })
    }

    /// Builds what a table names, and checks it.
    ///
    /// # Errors
    /// An unknown name; a parameter that is unknown, missing, of another type or invalid.
    pub fn build(&self, node: &Node) -> Result<Box<T>, Fault> {
        if let Some((build, name)) = Self::from_plugin(node) {
            let mut parameters = node.clone();
            parameters.remove(T::TAG);
            let built = build(name, &parameters).map_err(|fault| fault.within(node))?;
            built.check().map_err(|fault| fault.within(node))?;
            return Ok(built);
        }
        let entry = self.entry(node)?;
        let mut parameters = node.clone();
        parameters.remove(T::TAG);
        if T::DEFAULT.is_some() {
            self.check_keys(entry, &parameters).map_err(|fault| fault.within(node))?;
        }
        let built = (entry.build)(&parameters).map_err(|fault| renamed(fault.within(node), entry, node))?;
        built.check().map_err(|fault| fault.within(node))?;
        Ok(built)
    }

    /// The function that builds a plugin's component, and its name, if the table names one.
    fn from_plugin(node: &Node) -> Option<(FromPlugin<T>, &str)> {
        let name = node.text(T::TAG).filter(|name| is_of_a_plugin(name))?;
        T::FROM_PLUGIN.map(|build| (build, name))
    }

    /// Reports a key that belongs to another entry. If the name is optional, such a key more likely
    /// means a forgotten name than a misspelt key.
    fn check_keys(&self, entry: &Entry<T>, parameters: &Node) -> Result<(), Fault> {
        let has = |entry: &Entry<T>, key: &str| {
            let schema = (entry.schema)();
            table(schema.as_value())["properties"].get(key).is_some()
        };
        for key in parameters.fields().iter().map(|field| field.key.as_str()).filter(|key| !has(entry, key)) {
            let others = self.entries.iter().filter(|other| has(other, key));
            let others: Vec<String> = others.map(|other| format!("{:?}", other.name)).collect();
            if !others.is_empty() {
                let (tag, name) = (T::TAG, entry.name);
                let message = format!("{tag} = {name:?} has no use for {key}; it is for {}", others.join(", "));
                return Err(Fault::at(key, message));
            }
        }
        Ok(())
    }

    /// Replaces another spelling of an entry's name in a table by its own: `Spacing` for `Spacingd`.
    /// Names in lower case stay, as they may be of another program's functions.
    pub fn name_as_known(&self, table: &mut Node) {
        let Some(written) = table.text(T::TAG).filter(|name| name.contains(char::is_uppercase)) else { return };
        if is_of_a_plugin(written) {
            return;
        }
        if let Some(entry) = self.find(written).filter(|entry| entry.name != written) {
            let origin = table.find(T::TAG).origin.clone();
            table.insert(T::TAG, Node { origin, ..Node::from(entry.name) });
        }
    }

    /// The table with all defaults written out, as a run records it. The name is in the entry's own
    /// spelling; an optional parameter without a default is omitted.
    ///
    /// # Errors
    /// When the name is missing or unknown.
    pub fn complete(&self, node: &Node) -> Result<Node, Fault> {
        if Self::from_plugin(node).is_some() {
            return Ok(node.clone());
        }
        let entry = self.entry(node)?;
        let mut whole = node.clone();
        whole.insert(T::TAG, Node { origin: node.find(T::TAG).origin.clone(), ..Node::from(entry.name) });
        let schema = (entry.schema)();
        for (key, property) in table(schema.as_value())["properties"].as_object().into_iter().flatten() {
            let default = property.get("default").filter(|value| !value.is_null());
            match (whole.get(key), default) {
                (None, Some(value)) => {
                    let value = Node::deserialize(value).map_err(|error| Fault::at(key, error.to_string()))?;
                    whole.insert(key, value);
                }
                // A recipe without the key means the same.
                (Some(Node { value: Value::Nothing, .. }), None) => drop(whole.remove(key)),
                _ => {}
            }
        }
        Ok(whole)
    }
}

/// A fault of a file's parameter after the command line changed the name: the parameters belonged
/// to the old name, so the whole table has to be replaced.
fn renamed<T: Kind + ?Sized>(fault: Fault, entry: &Entry<T>, node: &Node) -> Fault {
    let (Origin::Set(argument), Origin::Text(..)) = (&node.find(T::TAG).origin, &fault.origin) else { return fault };
    let assignment = argument.strip_prefix("--set ").and_then(|argument| argument.split_once('='));
    let Some(path) = assignment.and_then(|(key, _)| key.trim().strip_suffix(T::TAG)?.strip_suffix('.')) else {
        return fault;
    };
    let schema = (entry.schema)();
    let known = &table(schema.as_value())["properties"];
    let mut kept = Node::empty().with(T::TAG, entry.name);
    for field in node.fields().iter().filter(|field| known.get(&field.key).is_some()) {
        kept.insert(&field.key, field.node.clone());
    }
    let kept = kept.to_toml();
    let advice = "keeps the other keys of the table; replace all of it:";
    Fault { message: format!("{}\n{argument} {advice} --set '{path}={kept}'", fault.text()), suggestion: None, ..fault }
}
