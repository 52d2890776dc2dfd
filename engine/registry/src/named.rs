//! [`Named`]: a named component of a recipe, together with the object that it builds.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::Deserializer;
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use crate::entry::{Entry, Kind};
use crate::fault::Fault;
use crate::node::Node;
use crate::registry::Registry;

/// The table of a named component, with all defaults written out, and the component itself.
///
/// It is read from a recipe like any other value (`name = "DiceLoss"` and its parameters),
/// serialized as it was read, and dereferences to the component. A component with state of its own,
/// such as a metric that accumulates rows, is built again for each use ([`build`](Self::build)).
pub struct Named<T: Kind + ?Sized> {
    node: Node,
    built: Arc<T>,
}

impl<T: Kind + ?Sized> Named<T> {
    /// Builds the component that a table names.
    ///
    /// # Errors
    /// An unknown name; a parameter that is unknown, missing, of another type or invalid.
    pub fn new(node: &Node) -> Result<Self, Fault> {
        let registry = Registry::<T>::new();
        let built = Arc::from(registry.build(node)?);
        Ok(Self { node: registry.complete(node)?, built })
    }

    /// Creates the component from a name and its parameters, as in a recipe:
    /// `LossConfig::of("DiceLoss", &DiceLoss { sigmoid: true, ..DiceLoss::default() })`.
    ///
    /// # Errors
    /// When the name is unknown, or has other parameters.
    pub fn of(name: &str, parameters: &impl Serialize) -> Result<Self, Fault> {
        Self::new(&table(name, parameters)?.with(T::TAG, name))
    }

    /// Joins a name, parameters and the component that was built from them, without a check: the user of
    /// the component reports invalid parameters.
    pub fn unchecked(name: &str, parameters: &impl Serialize, value: Arc<T>) -> Self {
        let table = table(name, parameters).unwrap_or_else(|_| Node::empty());
        Self { node: table.with(T::TAG, name), built: value }
    }

    /// The component's name.
    pub fn name(&self) -> &str {
        self.node.text(T::TAG).unwrap_or_default()
    }

    /// The component's table, with all defaults written out.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The example of an entry.
    ///
    /// # Errors
    /// When the example does not build; a test of each kind builds every example.
    pub fn example(entry: &Entry<T>) -> Result<Self, Fault> {
        Self::new(&entry.example_table()?.with(T::TAG, entry.name))
    }

    /// The component with another value of a parameter.
    ///
    /// # Errors
    /// When the parameter is unknown or the value is invalid.
    pub fn with(&self, parameter: &str, value: impl Into<Node>) -> Result<Self, Fault> {
        Self::new(&self.node.clone().with(parameter, value))
    }

    /// Builds an owned component.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn build(&self) -> Result<Box<T>, Fault> {
        Registry::<T>::new().build(&self.node)
    }

    /// The shared component.
    pub fn shared(&self) -> Arc<T> {
        self.built.clone()
    }
}

/// The table of a value. Optional parameters without a value are written as explicitly nothing,
/// since their default may be something else. (TOML leaves them out, JSON does not.)
fn table(name: &str, parameters: &impl Serialize) -> Result<Node, Fault> {
    let fault = |error: String| Fault::new(format!("{name}: {error}"));
    let mut table = Node::from(toml::Value::try_from(parameters).map_err(|error| fault(error.to_string()))?);
    let all = serde_json::to_value(parameters).map_err(|error| fault(error.to_string()))?;
    for (key, value) in all.as_object().into_iter().flatten() {
        if value.is_null() && table.get(key).is_none() {
            table.insert(key, Node::nothing());
        }
    }
    Ok(table)
}

impl<T: Kind + ?Sized> Deref for Named<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.built
    }
}

impl<T: Kind + ?Sized> Clone for Named<T> {
    fn clone(&self) -> Self {
        Self { node: self.node.clone(), built: self.built.clone() }
    }
}

impl<T: Kind + ?Sized> PartialEq for Named<T> {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node
    }
}

impl<T: Kind + ?Sized> fmt::Debug for Named<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(T::WORD).field(&self.node.to_toml()).finish()
    }
}

impl<T: Kind + ?Sized> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        self.node.serialize(out)
    }
}

impl<'de, T: Kind + ?Sized> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let node = Node::deserialize(from)?;
        Self::new(&node).map_err(Fault::through_serde)
    }
}

impl<T: Kind + ?Sized> schemars::JsonSchema for Named<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::WORD.into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "object" })
    }
}
