//! Finds and loads the recipe's plugins: from files, or the bundled ones that are linked into the
//! program.

use std::path::{Component, Path, PathBuf};

use hearth_engine::Handler;
use hearth_plugin_host::{Found, Given, Origin, Plugin, PluginError, Search, load_isolated};

use crate::plan::Plan;
use hearth_recipe::recipe::{Fault, Listens};
use hearth_recipe::{At, Outcome, RecipeError};

/// A loaded plugin and its index in the recipe's list; `None` if only the command line named it.
#[derive(Debug)]
pub struct Attached {
    /// The plugin.
    pub plugin: Plugin,
    entry: Option<usize>,
}

impl Attached {
    /// The name of the plugin.
    pub fn name(&self) -> &str {
        &self.plugin.identity().name
    }

    /// The engine whose events it receives.
    fn listens(&self, plan: &Plan) -> Listens {
        self.entry.map(|index| plan.recipe.plugins[index].engine).unwrap_or_default()
    }
}

/// A plugin of a run that was found, but not loaded.
#[derive(Debug)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its file, or the program.
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
            Ok(plugin) => Ok(Attached { plugin, entry: self.entry }),
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
/// command line names. `given` are the values of `--plugin`. None of their code runs.
pub fn find(plan: &Plan, given: &[PathBuf]) -> Outcome<Vec<Listed>> {
    Given::check(given)?;
    let search = search(plan, given);
    let mut all = find_where(plan, &search, |_| true)?;
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
pub fn load(plan: &Plan, given: &[PathBuf]) -> Outcome<Vec<Attached>> {
    find(plan, given)?.iter().map(|listed| listed.load(plan)).collect()
}

/// Finds and loads the plugins for the evaluator.
pub fn load_for_evaluation(plan: &Plan) -> Outcome<Vec<Attached>> {
    let found = find_where(plan, &search(plan, &[]), |engine| engine == Listens::Validation)?;
    found.iter().map(|listed| listed.load(plan)).collect()
}

/// The search path for plugins of a recipe, `given` first.
pub fn search(plan: &Plan, given: &[PathBuf]) -> Search {
    let named: Vec<PathBuf> = plan.recipe.plugins.iter().filter_map(|plugin| plugin.path.clone()).collect();
    Search::standard(given, &named)
}

fn find_where(plan: &Plan, search: &Search, wanted: impl Fn(Listens) -> bool) -> Outcome<Vec<Listed>> {
    let entries = plan.recipe.plugins.iter().enumerate().filter(|(_, entry)| wanted(entry.engine));
    entries
        .map(|(index, entry)| {
            let found = search.find(&entry.name).map_err(|error| {
                let path = match &error {
                    PluginError::NotFound { .. } => format!("plugins.{index}.name"),
                    _ => format!("plugins.{index}"),
                };
                plan.document.error_at(&path, error.to_string())
            })?;
            Ok(Listed { name: entry.name.clone(), found, entry: Some(index) })
        })
        .collect()
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
        if attached.name() == "checkpoint" {
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
        attached.plugin.handler(options).map_err(|error| match error {
            PluginError::Options { name, fault } => {
                located(Fault { message: format!("plugin `{name}`: {}", fault.message), ..*fault })
            }
            other => located(Fault::new(other.to_string())),
        })
    })
    .collect()
}
