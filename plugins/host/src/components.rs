//! Components of plugins in recipes: see `hearth_registry::component`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use abi_stable::erased_types::TD_Opaque;
use abi_stable::sabi_types::RMut;
use abi_stable::std_types::{ROption, RResult, RSlice, RStr, RString};
use hearth_plugin::__private as view;
use hearth_plugin::OptionInfo;
use hearth_plugin::abi::{AbiArray, AbiComponentBox, AbiComponentInfo, AbiNetwork, AbiNetwork_TO};
use hearth_registry::component::{self, Answer, Component, ComponentKind, HostArray, Network, Places};
use hearth_registry::{Fault, Node, nearest};
use serde::{Deserialize, Serialize};

use crate::error::PluginError;
use crate::load::{Plugin, load_isolated, option_info};
use crate::search::Search;
use crate::shown::shown;

/// A plugin's description of one of its components.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentInfo {
    /// The word of the kind, such as `transform`.
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
        write!(f, "{:<13} {:<17} {}", shown(&self.kind), shown(&self.name), shown(&self.help))?;
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
        made.into_iter().map(|array| view::own_array(&array)).collect()
    }

    fn call(
        &self,
        operation: &str,
        inputs: &[HostArray<'_>],
        text: &str,
        network: Option<&mut Network<'_>>,
    ) -> Result<Answer, String> {
        let inputs = inputs.iter().map(view::lend_array).collect::<Vec<_>>();
        let (operation, inputs, text) = (RStr::from_str(operation), RSlice::from_slice(&inputs), RStr::from_str(text));
        let mut lent = network.map(Lent);
        let network = match &mut lent {
            Some(lent) => ROption::RSome(AbiNetwork_TO::from_ptr(RMut::new(lent), TD_Opaque)),
            None => ROption::RNone,
        };
        let answer = self.raw.call(operation, inputs, text, network).into_result();
        answer.map_err(RString::into_string).and_then(view::receive_answer)
    }

    fn version(&self) -> String {
        self.version.clone()
    }
}

/// The network, lent to a plugin for one call.
struct Lent<'a, 'b>(&'a mut Network<'b>);

impl AbiNetwork for Lent<'_, '_> {
    fn run(&mut self, window: AbiArray<'_>) -> RResult<AbiArray<'static>, RString> {
        let output = view::receive_array(&window).and_then(|window| (self.0)(window));
        output.map(view::send_array).map_err(RString::from).into()
    }
}

/// Makes components of plugins available to recipes: from `given`, the recipe's paths and the other
/// places of [`Search::standard`]. Each plugin is loaded once, and each reader built once.
pub fn provide_components(given: &[PathBuf]) {
    let given = given.to_vec();
    let kept = Mutex::new(Kept::default());
    component::provide(Arc::new(move |kinds: &[ComponentKind], name: &str, options: &Node| {
        let (plugin, component) = name.split_once('.').unwrap_or((name, ""));
        let toml::Value::Table(options) = options.to_toml() else { return Err(Fault::new("expected a table")) };
        // Held while a plugin is loaded, so that several threads load it once.
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reader) = kept.readers.get(name).filter(|_| kinds == [ComponentKind::Reader]) {
            return Ok((ComponentKind::Reader, reader.clone()));
        }
        let places = component::places();
        let found = match kept.plugins.entry((plugin.to_owned(), places.clone())) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let missing = |error: PluginError| Fault::at("name", error.to_string());
                let search = Search::standard(&given, &places.paths);
                let loaded = match places.isolated.get(plugin) {
                    Some(limit) => search.find(plugin).and_then(|found| load_isolated(&found, *limit)),
                    None => search.load(plugin),
                };
                place.insert(loaded.map_err(missing)?)
            }
        };
        let (kind, made) = found.component_of(kinds, component, options)?;
        if kind == ComponentKind::Reader {
            kept.readers.insert(name.to_owned(), made.clone());
        }
        Ok((kind, made))
    }));
}

/// The plugins that were loaded for components, and their readers, which have no options.
#[derive(Default)]
struct Kept {
    /// By name and the places of the recipe.
    plugins: HashMap<(String, Places), Plugin>,
    readers: HashMap<String, Arc<dyn Component>>,
}

/// Finds the kind of a plugin's component of this name, which is one of `kinds`; the error lists the
/// existing ones.
pub(crate) fn find(plugin: &Plugin, kinds: &[ComponentKind], name: &str) -> Result<ComponentKind, Fault> {
    let (list, of) = (plugin.components(), &plugin.identity().name);
    let kind_of = |info: &ComponentInfo| kinds.iter().copied().find(|kind| info.kind == kind.word());
    if let Some(kind) = list.iter().filter(|info| info.name == name).find_map(kind_of) {
        return Ok(kind);
    }
    let mine = list.iter().filter(|info| kind_of(info).is_some());
    let names = mine.map(|info| format!("{of}.{}", shown(&info.name))).collect::<Vec<_>>();
    let near = nearest(&format!("{of}.{name}"), names.iter().map(String::as_str)).map(str::to_owned);
    let other = list.iter().find(|info| info.name == name);
    let kind = kinds.first().copied().map_or("component", ComponentKind::word);
    let why = match (other, names.is_empty()) {
        (Some(other), _) => format!("{of}.{name} is a {}, not a {kind}", other.kind),
        (None, true) => format!("plugin `{of}` has no {kind}"),
        (None, false) => format!("plugin `{of}` has no {kind} {name}; it has {}", names.join(", ")),
    };
    Err(Fault::at("name", why).meaning(near))
}
