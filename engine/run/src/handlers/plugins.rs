//! Finds and loads the recipe's plugins: from files, or the bundled ones that are linked into the
//! program.

use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use hearth_engine::{Context, Engine, Event, Handler, HandlerError, OnError, When};
use hearth_plugin_host::{Found, Given, Origin, Plugin, PluginError, Search, load_isolated};

use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use hearth_recipe::recipe::{Fault, Listens};
use hearth_recipe::{At, Outcome, RecipeError};

/// A loaded plugin and its index in the recipe's list; `None` if only the command line named it.
pub struct Attached {
    /// The plugin.
    pub plugin: Plugin,
    entry: Option<usize>,
    origin: Option<Origin>,
    /// The handler that the check of its options has made: a plugin is constructed once.
    made: Mutex<Option<Box<dyn Handler>>>,
}

/// A plugin's handler with the name of its instance.
struct Renamed {
    name: String,
    handler: Box<dyn Handler>,
}

impl Handler for Renamed {
    fn name(&self) -> &str {
        &self.name
    }

    fn subscriptions(&self) -> Vec<When> {
        self.handler.subscriptions()
    }

    fn events(&self) -> Vec<String> {
        self.handler.events()
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        self.handler.handle(event, cx)
    }

    fn on_error(&self) -> OnError {
        self.handler.on_error()
    }

    fn ranks(&self) -> hearth_engine::Ranks {
        self.handler.ranks()
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        self.handler.save_state()
    }

    fn load_state(&mut self, state: &[u8]) -> Result<(), HandlerError> {
        self.handler.load_state(state)
    }
}

/// A plugin as a run records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// The name of the plugin.
    pub name: String,
    /// The version that the plugin states.
    pub version: String,
    /// The library; absent for a plugin that is linked into the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The hash of its files: see [`hearth_plugin_host::content_hash`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Whether `--plugin` named the library, which a resumed run then takes again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given: bool,
}

impl Attached {
    /// The record of the plugin in a run.
    pub fn recorded(&self) -> Recorded {
        let identity = self.plugin.identity();
        let path = self.plugin.path().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        let hash = self.plugin.hash().map(str::to_owned);
        let (name, version) = (identity.name.clone(), identity.version.clone());
        Recorded { name, version, path, hash, given: self.is_given() }
    }

    /// The name of the plugin.
    pub fn name(&self) -> &str {
        &self.plugin.identity().name
    }

    /// Whether `--plugin` named it.
    pub fn is_given(&self) -> bool {
        self.origin == Some(Origin::Given)
    }

    /// The engine whose events it receives.
    fn listens(&self, plan: &Plan) -> Listens {
        self.entry.map(|index| plan.recipe.plugins[index].engine).unwrap_or_default()
    }
}

/// A plugin of a run that was found, but not loaded.
#[derive(Debug)]
pub struct Listed {
    /// The name of the plugin.
    pub name: String,
    /// The file of the plugin, or the program.
    pub found: Found,
    entry: Option<usize>,
}

impl Listed {
    /// Loads it.
    ///
    /// # Errors
    /// A plugin that cannot be loaded, or that only the recipe names and the user does not allow.
    pub fn load(&self, plan: &Plan) -> Outcome<Attached> {
        let entry = self.entry.map(|index| &plan.recipe.plugins[index]);
        let plugin = match entry.filter(|entry| entry.isolated) {
            Some(entry) => load_isolated(&self.found, entry.limit()),
            None => self.found.load(),
        };
        match plugin {
            Ok(plugin) => {
                let origin = self.found.origin();
                Ok(Attached { plugin, entry: self.entry, origin, made: Mutex::default() })
            }
            Err(error) => Err(self.error(plan, error)),
        }
    }

    /// An error at its place in the recipe.
    pub fn error(&self, plan: &Plan, error: PluginError) -> RecipeError {
        match self.entry {
            Some(index) => plan.document.error_at(&format!("plugins.{index}"), error.to_string()),
            None => error.into(),
        }
    }
}

/// Finds every plugin of a run, in order: those that the recipe lists, then those that only the
/// command line names. `given` are the values of `--plugin`, and `before` the plugins of a run that is
/// resumed. None of their code runs.
pub fn find(plan: &Plan, given: &[PathBuf], before: &[Recorded]) -> Outcome<Vec<Listed>> {
    Given::check(given)?;
    let search = search(plan, given);
    let mut all = find_where(plan, given, before, |_| true)?;
    for given in given.iter().map(|word| Given::of(word)) {
        let (name, found) = match given {
            Given::Path(path) if path.is_file() => {
                let name = hearth_plugin_host::inspect(path)?.name;
                (name, Found::File { path: path.to_owned(), origin: Origin::Given })
            }
            Given::Path(_) => continue,
            Given::Name(name) => (name.to_owned(), search.find(name)?),
        };
        if !all.iter().any(|known| known.name == name) {
            all.push(Listed { name, found, entry: None });
        }
    }
    Ok(all)
}

/// Finds and loads every plugin of a run: see [`find`].
pub fn load(plan: &Plan, given: &[PathBuf], before: &[Recorded]) -> Outcome<Vec<Attached>> {
    find(plan, given, before)?.iter().map(|listed| listed.load(plan)).collect()
}

/// Finds and loads the plugins for the evaluator; `given` are the values of `--plugin`.
pub fn load_for_evaluation(plan: &Plan, given: &[PathBuf]) -> Outcome<Vec<Attached>> {
    let found = find_where(plan, given, &[], |engine| engine == Listens::Validation)?;
    found.iter().map(|listed| listed.load(plan)).collect()
}

/// The search path for plugins of a recipe, `given` first.
pub fn search(plan: &Plan, given: &[PathBuf]) -> Search {
    let named: Vec<PathBuf> = plan.recipe.plugins.iter().filter_map(|plugin| plugin.path.clone()).collect();
    Search::standard(given, &named)
}

/// The places of a plugin whose path the recipe states: that path, after those of `--plugin`. A plugin
/// of the same name elsewhere does not replace it.
fn of_path(given: &[PathBuf], path: &Path) -> Search {
    let search = Given::paths(given).fold(Search::empty(), |search, path| search.with(Origin::Given, path));
    search.with(Origin::Recipe, path)
}

fn find_where(
    plan: &Plan,
    given: &[PathBuf],
    before: &[Recorded],
    wanted: impl Fn(Listens) -> bool,
) -> Outcome<Vec<Listed>> {
    let search = search(plan, given);
    let entries = plan.recipe.plugins.iter().enumerate().filter(|(_, entry)| wanted(entry.engine));
    entries
        .map(|(index, entry)| {
            let taken = before.iter().find(|before| before.given && before.name == entry.name);
            let found = match taken.and_then(|taken| taken.path.as_ref()).or(entry.path.as_ref()) {
                Some(path) => of_path(given, path).find(&entry.name),
                None => search.find(&entry.name),
            };
            let found = found.map_err(|error| {
                let path = match &error {
                    _ if entry.path.is_some() => format!("plugins.{index}.path"),
                    PluginError::NotFound { .. } => format!("plugins.{index}.name"),
                    _ => format!("plugins.{index}"),
                };
                plan.document.error_at(&path, error.to_string())
            })?;
            Ok(Listed { name: entry.name.clone(), found, entry: Some(index) })
        })
        .collect()
}

/// Makes the handlers of the plugins for one engine, so that errors in their options are reported; they
/// wait for [`handlers`].
pub fn check(plan: &Plan, plugins: &[Attached], engine: Listens) -> Outcome {
    let mine = || plugins.iter().filter(|attached| attached.listens(plan) == engine);
    let made = handlers(plan, plugins, Path::new(""), engine)?;
    check_events(plan, &mine().collect::<Vec<_>>(), &made)?;
    for (attached, handler) in mine().zip(made) {
        *attached.made.lock().unwrap_or_else(PoisonError::into_inner) = Some(handler);
    }
    Ok(())
}

/// Fails for an event of a plugin's own to which another one listens, and which none fires.
fn check_events(plan: &Plan, plugins: &[&Attached], made: &[Box<dyn Handler>]) -> Outcome {
    let fired = made.iter().flat_map(|handler| handler.events()).collect::<Vec<_>>();
    for (attached, handler) in plugins.iter().zip(made) {
        let whens = handler.subscriptions();
        let names = whens.iter().flat_map(|when| when.alternatives()).filter(|(event, _)| event.is_custom());
        let names = names.map(|(event, _)| event.name()).find(|name| !fired.iter().any(|known| known == name));
        if let Some(event) = names {
            let others = if fired.is_empty() { "none".to_owned() } else { fired.join(", ") };
            let what = format!(
                "plugin `{}` listens to `{event}`, which no plugin of this run fires; they fire: {others}",
                attached.name()
            );
            return Err(match attached.entry {
                Some(index) => plan.document.error_at(&format!("plugins.{index}"), what),
                None => RecipeError::new(what),
            });
        }
    }
    Ok(())
}

/// The handlers of the plugins for one engine, each with its options from the recipe. Checkpoints
/// go into the run's folder.
pub fn handlers(plan: &Plan, plugins: &[Attached], run: &Path, engine: Listens) -> Outcome<Vec<Box<dyn Handler>>> {
    let mine = plugins.iter().filter(|attached| attached.listens(plan) == engine);
    mine.map(|attached| {
        let place = attached.entry.map(|index| format!("plugins.{index}.options"));
        let located = |fault: Fault| {
            let Some(place) = &place else { return RecipeError::from(fault) };
            // An error about an unknown option points at the key, other errors at the value.
            let known =
                attached.plugin.options().iter().any(|option| fault.path.split('.').next() == Some(&option.name));
            let (root, fault) = (plan.document.root(), fault.under(place));
            RecipeError::from(if known { fault.within(root) } else { fault.at_key_within(root) })
        };
        let listed = attached.entry.map(|index| plan.recipe.plugins[index].options.clone());
        let mut options = listed.unwrap_or_default();
        let of_folder = attached.name() == "checkpoint";
        if !of_folder && let Some(made) = attached.made.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Ok(made);
        }
        if of_folder {
            let dir = options.get("dir").and_then(toml::Value::as_str).unwrap_or("checkpoints");
            if dir.is_empty() || !Path::new(dir).components().all(|part| matches!(part, Component::Normal(_))) {
                let message = format!("checkpoints stay in the run's folder, so `dir` cannot be {dir:?}");
                return Err(located(Fault::at("dir", message)));
            }
            let dir = run.join(dir);
            let Some(dir) = dir.to_str() else {
                let advice = "rename the run's folder, or give another one";
                let what = "this path is not UTF-8, which plugins cannot take";
                return Err(RecipeError::new(format!("{}: {what}; {advice}", dir.display())));
            };
            options.insert("dir".into(), dir.into());
        }
        let handler = attached.plugin.handler(options).map_err(|error| match error {
            PluginError::Options { name, fault } => {
                located(Fault { message: format!("plugin `{name}`: {}", fault.message), ..*fault })
            }
            other => located(Fault::new(other.to_string())),
        })?;
        // A filter on an event without a counter, or an event that no one registers.
        Engine::new("check").check(&*handler).map_err(|error| match attached.entry {
            Some(index) => plan.document.error_at(&format!("plugins.{index}"), error.to_string()),
            None => RecipeError::new(error.to_string()),
        })?;
        Ok(match attached.entry.and_then(|index| plan.recipe.plugins[index].alias.clone()) {
            Some(name) => Box::new(Renamed { name, handler }),
            None => handler,
        })
    })
    .collect()
}
