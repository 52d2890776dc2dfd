//! `run.json`: the settings with which a run was started, so that it is resumed with the same ones.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use hearth_data::Item;
use hearth_registry::component;
use hearth_train::RunFolder;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::cases::Cases;
use crate::fingerprint::Fingerprint;
use crate::folders;
use crate::handlers::plugins::{Attached, Recorded};
use crate::plan::Plan;
use hearth_recipe::recipe::PluginChanges;
use hearth_recipe::{Context, Outcome, RecipeError, warning};

/// The file in the run's folder.
const FILE: &str = "run.json";

/// Keys that may differ when a run is resumed: its length with the schedule, and the device and
/// threads that compute it.
const FREE: [&str; 7] = [
    "training.epochs",
    "training.device",
    "training.tune",
    "training.convolutions",
    "data.workers",
    "distributed",
    "schedule",
];

/// Options of `EarlyStop` that only decide how long a run trains.
const OF_LENGTH: [&str; 2] = ["patience", "min_delta"];

/// The settings with which a run was started.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    /// The run's name, which its checkpoints bear; absent in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The resolved recipe.
    recipe: String,
    /// The path of the data set, as given; absent in runs of earlier versions.
    #[serde(default)]
    data: String,
    /// The training cases.
    training: Vec<String>,
    /// The validation cases.
    validation: Vec<String>,
    /// The plugins, with the hashes of their files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    plugins: Vec<Recorded>,
    /// Other plugins whose components the recipe names: name, version and hash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    components: Vec<String>,
    /// The properties of the training cases, in a separate file.
    #[serde(skip)]
    fingerprint: Option<Fingerprint>,
}

/// The cases on which a run validated.
///
/// # Errors
/// A run of an early version, which did not record them.
pub fn held_out(folder: &RunFolder) -> Outcome<Vec<String>> {
    match Record::read(folder)? {
        Some(record) => Ok(record.validation),
        None => Err(RecipeError::new(format!("{} does not say on which cases it validated", folder.root().display()))),
    }
}

/// The name of the run in a folder; `None` for a run of an earlier version.
///
/// # Errors
/// A `run.json` that cannot be read.
pub fn run_id(folder: &RunFolder) -> Outcome<Option<String>> {
    Ok(Record::read(folder)?.and_then(|record| record.id))
}

/// What decides what a network was trained to see and to say.
const LEARNED: [&str; 4] = ["task", "labels", "network", "transforms"];

/// Warns if the recipe in a run's folder has other steps, labels or layers than the run was trained with.
pub fn warn_of_edits(folder: &RunFolder) {
    let path = folder.recipe();
    // A recipe or a record that cannot be read ends the command elsewhere.
    let (Ok(Some(record)), Ok(now)) = (Record::read(folder), hearth_files::read_to_string(&path)) else { return };
    if let Some((key, before, now)) = edit(&record.recipe, &now) {
        let path = path.display();
        warning!("{path} was edited after the training: {key} is {now}, the network was trained with {before}");
    }
}

/// The first difference of what is learned.
fn edit(before: &str, now: &str) -> Option<(String, String, String)> {
    let (before, now): (Table, Table) = (toml::from_str(before).ok()?, toml::from_str(now).ok()?);
    LEARNED.iter().find_map(|key| difference(key, before.get(*key)?, now.get(*key)?))
}

impl Record {
    /// The record of a new run with this plan and data, whose training cases are looked at.
    pub fn of_new(plan: &Plan, data: &Path) -> Outcome<Self> {
        let fingerprint = Fingerprint::of_training(plan, &Cases::open(data, &plan.recipe)?);
        Ok(Self { fingerprint, ..Self::new(plan, data)? })
    }

    /// The record of a run with this plan and data.
    pub fn new(plan: &Plan, data: &Path) -> Outcome<Self> {
        let cases = Cases::open(data, &plan.recipe)?;
        let names = |items: Vec<Item>| items.into_iter().map(|item| item.case).collect();
        let recipe = plan.recipe.to_toml()?;
        let data = data.display().to_string();
        let (training, validation) = (names(cases.training), names(cases.validation));
        let (plugins, components) = (Vec::new(), Vec::new());
        Ok(Self { id: None, recipe, data, training, validation, plugins, components, fingerprint: None })
    }

    /// Gives a new run its name.
    #[must_use]
    pub fn named(self) -> Self {
        Self { id: Some(new_id()), ..self }
    }

    /// Records the plugins of the run, and those whose components were loaded for it.
    #[must_use]
    pub fn with_plugins(self, plugins: &[Attached]) -> Self {
        let plugins: Vec<Recorded> = plugins.iter().map(Attached::recorded).collect();
        Self { components: others(&plugins, &self.recipe), plugins, ..self }
    }

    /// The record of a resumed run: it has the recipe and the plugins of now, which [`check`](Self::check)
    /// has accepted. Plugins with other files than before are reported.
    pub fn resumed(self, plan: &Plan, plugins: &[Attached]) -> Outcome<Self> {
        let mut plugins: Vec<Recorded> = plugins.iter().map(Attached::recorded).collect();
        for plugin in &mut plugins {
            let before = self.plugins.iter().find(|before| before.name == plugin.name);
            // Taken from here, it is found as one of the recipe.
            plugin.given |= before.is_some_and(|before| before.given && before.path == plugin.path);
            if let Some(before) = before.filter(|before| before.hash != plugin.hash) {
                let place = |of: &Recorded| match (&of.path, &of.hash) {
                    (Some(path), Some(hash)) => format!("{} ({hash})", path.display()),
                    _ => "the one of this program".to_owned(),
                };
                let (name, was, now) = (&plugin.name, place(before), place(plugin));
                warning!("the plugin `{name}` has changed since the run was started: it was {was}, now it is {now}");
            }
        }
        let recipe = plan.recipe.to_toml()?;
        let components = others(&plugins, &recipe);
        for now in &components {
            let was = self.components.iter().find(|before| name_of(before) == name_of(now));
            if let Some(was) = was.filter(|was| *was != now) {
                let name = name_of(now);
                warning!("the plugin `{name}` has changed since the run was started: it was {was}, now it is {now}");
            }
        }
        Ok(Self { recipe, plugins, components, ..self })
    }

    /// The plugins of the run.
    pub fn plugins(&self) -> &[Recorded] {
        &self.plugins
    }

    /// Whether the run's recipe lists a plugin of this name.
    pub fn has_plugin(&self, name: &str) -> bool {
        let recipe: Table = toml::from_str(&self.recipe).unwrap_or_default();
        let plugins = recipe.get("plugins").and_then(Value::as_array);
        plugins.is_some_and(|list| list.iter().any(|plugin| plugin.get("name").and_then(Value::as_str) == Some(name)))
    }

    /// Whether an `EarlyStop` of the plan would end the run later or earlier than before.
    pub(crate) fn stops_otherwise(&self, plan: &Plan) -> bool {
        let of = |recipe: &str| {
            let mut recipe: Table = toml::from_str(recipe).unwrap_or_default();
            early_stops(&mut recipe).map(|stop| OF_LENGTH.map(|key| stop.get(key).cloned())).collect::<Vec<_>>()
        };
        plan.recipe.to_toml().is_ok_and(|now| of(&now) != of(&self.recipe))
    }

    /// The number of training and of validation cases.
    pub fn cases(&self) -> (usize, usize) {
        (self.training.len(), self.validation.len())
    }

    /// The run's name; `None` for a run of an earlier version.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Reads the record of the run in a folder; `None` if an earlier version did not write it.
    pub fn read(folder: &RunFolder) -> Outcome<Option<Self>> {
        let path = folder.root().join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let doing = || format!("cannot read {}", path.display());
        Ok(Some(serde_json::from_str(&hearth_files::read_to_string(&path).while_doing(doing)?).while_doing(doing)?))
    }

    /// The training cases.
    pub fn training(&self) -> &[String] {
        &self.training
    }

    /// The validation cases.
    pub fn validation(&self) -> &[String] {
        &self.validation
    }

    /// Writes the record, and the fingerprint if there is one.
    pub fn write(&self, folder: &RunFolder) -> Outcome {
        if let Some(fingerprint) = &self.fingerprint {
            fingerprint.write(folder.root())?;
        }
        folders::replace(&folder.root().join(FILE), &(serde_json::to_string_pretty(self)? + "\n"))
    }

    /// Fails if the run in the folder differs from this one in more than these changes; the error names
    /// the first difference.
    pub fn check(&self, folder: &RunFolder, changes: &PluginChanges) -> Outcome {
        let path = folder.root().join(FILE);
        if !path.exists() {
            return Ok(());
        }
        let doing = || format!("cannot read {}", path.display());
        let first: Self =
            serde_json::from_str(&hearth_files::read_to_string(&path).while_doing(doing)?).while_doing(doing)?;
        let advice = "a run is resumed with what it was started with; start a new run to change it";
        let cannot = format!("cannot resume {}", folder.root().display());
        let (mut before, mut now): (Table, Table) = (toml::from_str(&first.recipe)?, toml::from_str(&self.recipe)?);
        for recipe in [&mut before, &mut now] {
            early_stops(recipe).for_each(|stop| stop.retain(|key, _| !OF_LENGTH.contains(&key)));
            let Some(Value::Array(plugins)) = recipe.get_mut("plugins") else { continue };
            plugins.retain(|plugin| {
                let is = |name: &String| plugin.get("name").and_then(Value::as_str) == Some(name);
                !changes.without.iter().chain(&changes.given).any(is)
            });
        }
        if let Some((key, before, now)) = difference("", &Value::Table(before), &Value::Table(now)) {
            return Err(RecipeError::new(format!(
                "{cannot}: {key} is {now} in its recipe.toml, it was {before}; {advice}"
            )));
        }
        for (what, before, now) in
            [("train", &first.training, &self.training), ("validate", &first.validation, &self.validation)]
        {
            let text = |case: Option<&String>| case.map_or("none".to_owned(), |case| format!("{case:?}"));
            let length = before.len().max(now.len());
            if let Some(index) = (0..length).find(|index| before.get(*index) != now.get(*index)) {
                let (number, now_is, was) = (index + 1, text(now.get(index)), text(before.get(index)));
                let counts = format!("{} cases, it had {}", now.len(), before.len());
                return Err(RecipeError::new(format!(
                    "{cannot}: the data set has other cases to {what} ({counts}): case {number} is {now_is}, it was {was}; \
                     {advice}"
                )));
            }
        }
        Ok(())
    }
}

/// The tables of `EarlyStop` in a recipe.
fn early_stops(recipe: &mut Table) -> impl Iterator<Item = &mut Table> {
    let handlers = recipe.get_mut("handlers").and_then(Value::as_array_mut);
    let tables = handlers.into_iter().flatten().filter_map(Value::as_table_mut);
    tables.filter(|handler| handler.get("name").and_then(Value::as_str) == Some("EarlyStop"))
}

/// The plugins whose components the recipe names, without those of the list.
fn others(plugins: &[Recorded], recipe: &str) -> Vec<String> {
    of_recipe(component::loaded(), plugins, recipe)
}

/// Of the plugins that a process has loaded, those of one of its recipes.
fn of_recipe(loaded: Vec<String>, plugins: &[Recorded], recipe: &str) -> Vec<String> {
    let listed = |of: &String| plugins.iter().any(|plugin| plugin.name == name_of(of));
    let named = |of: &String| recipe.contains(&format!("\"{}.", name_of(of)));
    loaded.into_iter().filter(|of| named(of) && !listed(of)).collect()
}

/// The name of a plugin in the version of its components.
fn name_of(version: &str) -> &str {
    version.split(' ').next().unwrap_or(version)
}

/// A name that no other run has: 32 random hexadecimal digits.
fn new_id() -> String {
    // Each has keys of its own, which the system has drawn.
    let random = || RandomState::new().build_hasher().finish();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&random().to_le_bytes()).update(&random().to_le_bytes());
    hasher.update(&std::process::id().to_le_bytes());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    hasher.update(&now.as_nanos().to_le_bytes());
    hasher.finalize().to_hex()[..32].to_owned()
}

/// Cache options that change a step: a window that moves over the cases, and half precision.
fn in_a_cache(cache: &Value) -> Vec<Option<&Value>> {
    let is = |key: &str, word: &str| cache.get(key).and_then(Value::as_str) == Some(word);
    let window =
        ["kind", "rate", "num", "replace_rate", "shuffle"].map(|key| cache.get(key).filter(|_| is("kind", "smart")));
    let halves = cache.get("storage").filter(|_| is("storage", "f16"));
    window.into_iter().chain([halves]).collect()
}

/// The first key whose values differ, with both values.
fn difference(key: &str, before: &Value, now: &Value) -> Option<(String, String, String)> {
    if before == now || FREE.contains(&key) || (key == "data.cache" && in_a_cache(before) == in_a_cache(now)) {
        return None;
    }
    let join = |part: &str| if key.is_empty() { part.to_owned() } else { format!("{key}.{part}") };
    let nothing = Value::String("not set".into());
    match (before, now) {
        (Value::Table(before), Value::Table(now)) => before.keys().chain(now.keys()).find_map(|part| {
            difference(&join(part), before.get(part).unwrap_or(&nothing), now.get(part).unwrap_or(&nothing))
        }),
        (Value::Array(before), Value::Array(now)) if before.len() == now.len() => before
            .iter()
            .zip(now)
            .enumerate()
            .find_map(|(i, (before, now))| difference(&join(&i.to_string()), before, now)),
        _ => Some((key.to_owned(), before.to_string(), now.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process may have trained with other recipes before.
    #[test]
    fn a_run_has_the_components_that_its_recipe_names() {
        let loaded = vec!["bl 0.1.0".to_owned(), "other 1.0.0".to_owned()];
        let recipe = "[loss]\nname = \"bl.Boundary\"\nnote = \"an other.Loss\"\n";
        assert_eq!(of_recipe(loaded, &[], recipe), ["bl 0.1.0"]);
    }
}
