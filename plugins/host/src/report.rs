//! The output of `hearth plugin list|info|check`: [`List`], [`Info`], [`Report`].

use std::fmt;
use std::path::{Path, PathBuf};

use hearth_engine::{Event, Filter, OnError, Ranks};
use hearth_plugin::OptionInfo;
use serde::{Deserialize, Serialize};

use crate::components::ComponentInfo;
use crate::error::PluginError;
use crate::file::{Identity, examine};
use crate::load::Plugin;
use crate::needs;
use crate::search::Place;
use crate::shown::{shown, shown_path};

/// One library that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// The place.
    pub place: Place,
    /// The file; `None` for a plugin that is linked into the program.
    pub path: Option<PathBuf>,
    /// Its identity.
    pub identity: Option<Identity>,
    /// The reason why it cannot be loaded.
    pub problem: Option<String>,
    /// The plugin of the same name that is found before it.
    pub hidden_by: Option<PathBuf>,
}

impl Entry {
    /// The plugin's name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.identity.as_ref().map(|identity| identity.name.as_str())
    }
}

/// Every library in every place.
#[derive(Clone, Debug, Serialize)]
pub struct List {
    /// The searched places, in order.
    pub places: Vec<Place>,
    /// The libraries that were found, in search order.
    pub entries: Vec<Entry>,
}

impl List {
    /// The names of all plugins, sorted, without duplicates.
    pub fn names(&self) -> Vec<String> {
        let names: std::collections::BTreeSet<&str> = self.entries.iter().filter_map(Entry::name).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// A line with a place and the names of the plugins in it.
    pub fn describe(&self, place: &Place) -> String {
        let mut names = self
            .entries
            .iter()
            .filter(|entry| entry.place == *place)
            .map(|entry| match (entry.name(), entry.path.as_deref().and_then(Path::file_name)) {
                (Some(name), _) => name.to_owned(),
                (None, Some(file)) => format!("{} (not loadable)", shown(&file.to_string_lossy())),
                (None, None) => "(not loadable)".to_owned(),
            })
            .collect::<Vec<_>>()
            .join(", ");
        if names.is_empty() {
            names = if place.path.exists() { "no plugin".to_owned() } else { "missing".to_owned() };
        }
        format!("{:<19} {}: {names}", place.origin, shown_path(&place.path))
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in &self.entries {
            let Entry { place, path, identity, problem, hidden_by } = entry;
            let path = path.as_ref().unwrap_or(&place.path);
            match identity {
                Some(identity) => {
                    let Identity { name, version, description, .. } = identity;
                    let adds = if identity.adds_components { "  (adds to recipes: hearth plugin info)" } else { "" };
                    writeln!(f, "{name} {version}  {description}{adds}")?;
                    writeln!(f, "    {} ({})", shown_path(path), place.origin)?;
                }
                None => writeln!(f, "{} ({})", shown_path(path), place.origin)?,
            }
            if let Some(problem) = problem {
                writeln!(f, "    cannot be loaded: {problem}")?;
            }
            if let Some(hidden_by) = hidden_by {
                writeln!(f, "    hidden by {}", shown_path(hidden_by))?;
            }
        }
        write!(f, "looked in:")?;
        self.places.iter().try_for_each(|place| write!(f, "\n  {}", self.describe(place)))
    }
}

/// What a plugin reports about itself, or what its file states, if it was not loaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// The file; `None` for a plugin that is linked into the program.
    pub path: Option<PathBuf>,
    /// Its identity.
    pub identity: Identity,
    /// Whether it was loaded. If not, options, events and components are unknown.
    pub loaded: bool,
    /// The options.
    pub options: Vec<OptionInfo>,
    /// Its properties with default options; `None` if an option is required.
    pub defaults: Option<Defaults>,
    /// The components that it adds to recipes.
    #[serde(default)]
    pub components: Vec<ComponentInfo>,
}

/// The properties of a handler with default options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Defaults {
    /// The events it subscribes to, with their filters.
    pub events: Vec<String>,
    /// The events of its own that it fires.
    #[serde(default)]
    pub fires: Vec<String>,
    /// The ranks of a distributed run on which it acts.
    pub ranks: Ranks,
    /// The policy for its errors.
    pub on_error: OnError,
}

impl Info {
    /// What the file of a plugin states. None of the plugin's code runs.
    ///
    /// # Errors
    /// As [`examine`].
    pub fn of_file(path: &Path) -> Result<Self, PluginError> {
        Ok(Self::of_identity(path, &examine(path)?))
    }

    /// [`Info::of_file`] of a file whose identity is known.
    pub fn of_identity(path: &Path, identity: &Identity) -> Self {
        let (path, identity) = (Some(path.to_owned()), identity.clone());
        Self { path, identity, loaded: false, options: Vec::new(), defaults: None, components: Vec::new() }
    }

    /// Queries a plugin. Builds a handler once, with default options.
    pub fn of(plugin: &Plugin) -> Self {
        let defaults = plugin.handler(toml::Table::new()).ok().map(|handler| Defaults {
            events: handler
                .subscriptions()
                .iter()
                .flat_map(|when| when.alternatives())
                .map(|(event, filter)| describe(*event, filter))
                .collect(),
            fires: handler.events(),
            ranks: handler.ranks(),
            on_error: handler.on_error(),
        });
        Self {
            path: plugin.path().map(Path::to_owned),
            identity: plugin.identity().clone(),
            loaded: true,
            options: plugin.options().to_vec(),
            defaults,
            components: plugin.components().to_vec(),
        }
    }
}

/// What the host lends to every handler.
const READS: &str = "images, labels, predictions, weights, gradients, names and files of the cases";

/// `epoch_completed every 2`
fn describe(event: Event, filter: &Filter) -> String {
    let mut text = event.to_string();
    let numbers = [("every", filter.every.filter(|n| *n > 1)), ("after", filter.after), ("before", filter.before)];
    for (word, number) in numbers {
        if let Some(number) = number {
            text += &format!(" {word} {number}");
        }
    }
    if let Some(once) = &filter.once {
        text += &format!(" once {once:?}");
    }
    if filter.accept.is_some() {
        text += " by its own filter";
    }
    text
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { name, version, description, .. } = &self.identity;
        writeln!(f, "{name} {version}  {description}")?;
        match &self.path {
            Some(path) => writeln!(f, "  file      {}", shown_path(path))?,
            None => writeln!(f, "  file      none: it is built into this program")?,
        }
        writeln!(f, "  built by  {}", self.identity.built_with())?;
        if !self.loaded {
            writeln!(f, "  may read  {READS}")?;
            writeln!(f, "  may do    {}", needs::describe(self.identity.needs.as_deref()))?;
            if self.identity.adds_components {
                writeln!(f, "  adds      components that recipes name")?;
            }
            return write!(f, "  options   not known: the library was not loaded");
        }
        match &self.defaults {
            // A plugin of components has no subscriptions.
            Some(Defaults { events, .. }) if events.is_empty() && !self.components.is_empty() => {}
            Some(Defaults { events, fires, ranks, on_error }) => {
                writeln!(f, "  listens   {}", shown(&events.join(", ")))?;
                if !fires.is_empty() {
                    writeln!(f, "  fires     {}", shown(&fires.join(", ")))?;
                }
                let ranks = match ranks {
                    Ranks::All => "every process of a distributed run",
                    Ranks::First => "the first process of a distributed run",
                };
                writeln!(f, "  acts in   {ranks}")?;
                let on_error = match on_error {
                    OnError::Stop => "ends the run",
                    OnError::Disable => "disables it",
                    OnError::Log => "is logged",
                };
                writeln!(f, "  an error  {on_error}")?;
            }
            None => writeln!(f, "  listens   depends on its options")?,
        }
        if self.defaults.as_ref().is_none_or(|defaults| !defaults.events.is_empty()) {
            writeln!(f, "  may read  {READS}")?;
        }
        writeln!(f, "  may do    {}", needs::describe(self.identity.needs.as_deref()))?;
        for info in &self.components {
            let named = ComponentInfo { name: format!("{name}.{}", info.name), ..info.clone() };
            writeln!(f, "  adds      {named}")?;
        }
        if self.options.is_empty() {
            return write!(f, "  options   none");
        }
        write!(f, "  options")?;
        self.options.iter().try_for_each(|option| write!(f, "\n    {}", shown(&option.to_string())))
    }
}

/// The result of loading a plugin, possibly in another process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The file, or the name of a plugin that is linked into the program.
    pub path: PathBuf,
    /// Whether it can be used on this machine.
    pub ok: bool,
    /// What it reports about itself, if it could be loaded.
    pub info: Option<Info>,
    /// The problem.
    pub problem: Option<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(info) = &self.info {
            writeln!(f, "{info}")?;
        }
        match &self.problem {
            Some(problem) => write!(f, "{problem}"),
            None => write!(f, "{} can be loaded", shown_path(&self.path)),
        }
    }
}
