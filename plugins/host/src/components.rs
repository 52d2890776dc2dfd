//! Components of plugins in recipes: see `hearth_registry::component`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use abi_stable::std_types::{RSlice, RStr, RString};
use hearth_plugin::__private as view;
use hearth_plugin::OptionInfo;
use hearth_plugin::abi::{AbiComponentBox, AbiComponentInfo};
use hearth_registry::component::{self, Component, ComponentKind, HostArray};
use hearth_registry::{Fault, Node, nearest};
use serde::{Deserialize, Serialize};

use crate::error::PluginError;
use crate::load::{Plugin, option_info};
use crate::search::Search;
use crate::shown::shown;

/// A plugin's description of one of its components.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentInfo {
    /// `transform`, `metric` or `reader`.
    pub kind: String,
    /// The name, without the plugin's.
    pub name: String,
    /// The purpose, in one line.
    pub help: String,
    /// The options.
    pub options: Vec<OptionInfo>,
}

/// `transform mine.Blur  Smooths an image.`, and its options.
impl fmt::Display for ComponentInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<10} {:<17} {}", shown(&self.kind), shown(&self.name), shown(&self.help))?;
        self.options.iter().try_for_each(|option| write!(f, "\n      {}", shown(&option.to_string())))
    }
}

impl ComponentInfo {
    pub(crate) fn received(info: AbiComponentInfo) -> Option<Self> {
        let kind = view::component_kind(info.kind)?.word().to_owned();
        let (name, help) = (info.name.into_string(), info.help.into_string());
        Some(Self { kind, name, help, options: info.options.into_iter().map(option_info).collect() })
    }
}

/// A component of a plugin in Rust.
pub(crate) struct Loaded {
    pub raw: AbiComponentBox,
    pub version: String,
}

impl Component for Loaded {
    fn run(&self, inputs: &[HostArray<'_>], text: &str) -> Result<Vec<HostArray<'static>>, String> {
        let inputs = inputs.iter().map(view::lend_array).collect::<Vec<_>>();
        let made = self.raw.run(RSlice::from_slice(&inputs), RStr::from_str(text));
        let made = made.into_result().map_err(RString::into_string)?;
        made.into_iter().map(|array| view::receive_array(&array).map(owned)).collect()
    }

    fn version(&self) -> String {
        self.version.clone()
    }
}

/// The array with owned values.
pub(crate) fn owned(array: HostArray<'_>) -> HostArray<'static> {
    let HostArray { shape, values, affine } = array;
    HostArray { shape, values: Cow::Owned(values.into_owned()), affine }
}

/// Makes components of plugins available to recipes: from `given`, the recipe's paths and the other
/// places of [`Search::standard`]. Each plugin is loaded once, and each reader built once.
pub fn provide_components(given: &[PathBuf]) {
    let given = given.to_vec();
    let kept = Mutex::new(Kept::default());
    component::provide(Arc::new(move |kind: ComponentKind, name: &str, options: &Node| {
        let (plugin, component) = name.split_once('.').unwrap_or((name, ""));
        let toml::Value::Table(options) = options.to_toml() else { return Err(Fault::new("expected a table")) };
        // Held while a plugin is loaded, so that several threads load it once.
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reader) = kept.readers.get(name).filter(|_| kind == ComponentKind::Reader) {
            return Ok(reader.clone());
        }
        let places = component::places();
        let found = match kept.plugins.entry((plugin.to_owned(), places.clone())) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let missing = |error: PluginError| Fault::at("name", error.to_string());
                place.insert(Search::standard(&given, &places).load(plugin).map_err(missing)?)
            }
        };
        let made = found.component(kind, component, options)?;
        if kind == ComponentKind::Reader {
            kept.readers.insert(name.to_owned(), made.clone());
        }
        Ok(made)
    }));
}

/// The plugins that were loaded for components, and their readers, which have no options.
#[derive(Default)]
struct Kept {
    /// By name and the places of the recipe.
    plugins: HashMap<(String, Vec<PathBuf>), Plugin>,
    readers: HashMap<String, Arc<dyn Component>>,
}

/// Checks that a plugin has a component of this kind and name; the error lists the existing ones.
pub(crate) fn find(plugin: &Plugin, kind: ComponentKind, name: &str) -> Result<(), Fault> {
    let (list, of) = (plugin.components(), &plugin.identity().name);
    let mine = || list.iter().filter(|info| info.kind == kind.word());
    if mine().any(|info| info.name == name) {
        return Ok(());
    }
    let names = mine().map(|info| format!("{of}.{}", shown(&info.name))).collect::<Vec<_>>();
    let near = nearest(&format!("{of}.{name}"), names.iter().map(String::as_str)).map(str::to_owned);
    let other = list.iter().find(|info| info.name == name);
    let why = match (other, names.is_empty()) {
        (Some(other), _) => format!("{of}.{name} is a {}, not a {kind}", other.kind),
        (None, true) => format!("plugin `{of}` has no {kind}"),
        (None, false) => format!("plugin `{of}` has no {kind} {name}; it has {}", names.join(", ")),
    };
    Err(Fault::at("name", why).meaning(near))
}
