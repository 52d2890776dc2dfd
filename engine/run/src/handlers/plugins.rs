//! Finds and loads the recipe's plugins: from files, or the bundled ones that are linked into the
//! program.

use std::path::{Component, Path, PathBuf};

use hearth_engine::Handler;
use hearth_plugin_host::{Found, Given, Plugin, PluginError, Search, load_isolated};

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

/// Finds and loads every plugin that the recipe lists, in order. `given` are the values of `--plugin`.
pub fn load(plan: &Plan, given: &[PathBuf]) -> Outcome<Vec<Attached>> {
    Given::check(given)?;
    let mut loaded = load_where(plan, given, |_| true)?;
    let search = search(plan, given);
    // Plugins named on the command line are used, whether or not the recipe lists them.
    for given in given.iter().map(|word| Given::of(word)) {
        let found = match given {
            Given::Path(path) if path.is_file() => {
                let name = hearth_plugin_host::inspect(path)?.name;
                (name, Found::File(path.to_owned()))
            }
            Given::Path(_) => continue,
            Given::Name(name) => (name.to_owned(), search.find(name)?),
        };
        if !loaded.iter().any(|known| known.name() == found.0) {
            loaded.push(Attached { plugin: found.1.load()?, entry: None });
        }
    }
    Ok(loaded)
}

/// Finds and loads the plugins for the evaluator.
pub fn load_for_evaluation(plan: &Plan) -> Outcome<Vec<Attached>> {
    load_where(plan, &[], |engine| engine == Listens::Validation)
}

/// The search path for plugins of a recipe, `given` first.
pub fn search(plan: &Plan, given: &[PathBuf]) -> Search {
    let named: Vec<PathBuf> = plan.recipe.plugins.iter().filter_map(|plugin| plugin.path.clone()).collect();
    Search::standard(given, &named)
}

fn load_where(plan: &Plan, given: &[PathBuf], wanted: impl Fn(Listens) -> bool) -> Outcome<Vec<Attached>> {
    let search = search(plan, given);
    let mut loaded = Vec::with_capacity(plan.recipe.plugins.len());
    for (index, entry) in plan.recipe.plugins.iter().enumerate().filter(|(_, entry)| wanted(entry.engine)) {
        let loaded_plugin = if entry.isolated {
            search.find(&entry.name).and_then(|found| load_isolated(&found, entry.limit()))
        } else {
            search.load(&entry.name)
        };
        let plugin = loaded_plugin.map_err(|error| {
            let path = match &error {
                PluginError::NotFound { .. } => format!("plugins.{index}.name"),
                _ => format!("plugins.{index}"),
            };
            plan.document.error_at(&path, error.to_string())
        })?;
        loaded.push(Attached { plugin, entry: Some(index) });
    }
    Ok(loaded)
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
