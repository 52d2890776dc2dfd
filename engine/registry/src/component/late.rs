//! [`Late`]: a component that is loaded when it is first used.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{Component, ComponentKind, Places, find, places, with_places};
use crate::fault::Fault;
use crate::node::Node;

/// A component by its name and options, loaded when it is first used: commands that do not use it need no
/// plugin.
pub struct Late {
    kind: ComponentKind,
    name: &'static str,
    options: Node,
    /// The places of plugins of the recipe that named it.
    places: Places,
    found: OnceLock<Arc<dyn Component>>,
}

/// The names so far: each is leaked once, because errors of losses and metrics hold static names.
static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

fn kept(name: &str) -> &'static str {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(name);
    name
}

impl Late {
    /// The component that the recipe of this thread names, with the component's own options.
    pub fn new(kind: ComponentKind, name: &str, options: Node) -> Self {
        Self { kind, name: kept(name), options, places: places(), found: OnceLock::new() }
    }

    /// The name: `mine.Warm`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The component, which is loaded now if it was not before.
    ///
    /// # Errors
    /// If there is no such plugin or component, or it refuses its options.
    pub fn get(&self) -> Result<&Arc<dyn Component>, Fault> {
        if let Some(component) = self.found.get() {
            return Ok(component);
        }
        let found = with_places(self.places.clone(), || find(self.kind, self.name, &self.options))?;
        Ok(self.found.get_or_init(|| found))
    }
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Late").field("name", &self.name).field("options", &self.options).finish_non_exhaustive()
    }
}
