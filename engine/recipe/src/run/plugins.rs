//! The recipe's plugins, found and loaded from disk. Nothing is linked in their place.

use std::path::{Component, Path, PathBuf};

use hearth_engine::Handler;
use hearth_plugin_host::{Plugin, PluginError, Search};

use super::Plan;
use crate::error::{At, Outcome, RecipeError};

/// Finds and loads every plugin that the recipe lists, in its order. `given` are the `--plugin` paths.
pub fn load(plan: &Plan, given: &[PathBuf]) -> Outcome<Vec<Plugin>> {
    if let Some(missing) = given.iter().find(|path| !path.exists()) {
        return Err(RecipeError::new(format!("--plugin {}: there is no such file or folder", missing.display())));
    }
    let named: Vec<PathBuf> = plan.recipe.plugins.iter().filter_map(|plugin| plugin.path.clone()).collect();
    let search = Search::standard(given, &named);
    let mut loaded = Vec::with_capacity(plan.recipe.plugins.len());
    for (index, entry) in plan.recipe.plugins.iter().enumerate() {
        let plugin = search.load(&entry.name).map_err(|error| {
            let path = match &error {
                PluginError::NotFound { .. } => format!("plugins.{index}.name"),
                _ => format!("plugins.{index}"),
            };
            plan.document.error_at(&path, error.to_string())
        })?;
        loaded.push(plugin);
    }
    // A library that somebody names on the command line is wanted, whether or not the recipe lists it.
    for path in given.iter().filter(|path| path.is_file()) {
        let plugin = hearth_plugin_host::load(path)?;
        if !loaded.iter().any(|known| known.identity().name == plugin.identity().name) {
            loaded.push(plugin);
        }
    }
    Ok(loaded)
}

/// The plugins' handlers, each told its options from the recipe. Checkpoints go into the run's folder.
pub fn handlers(plan: &Plan, plugins: &[Plugin], run: &Path) -> Outcome<Vec<Box<dyn Handler>>> {
    plugins
        .iter()
        .map(|plugin| {
            let name = &plugin.identity().name;
            let listed = plan.recipe.plugins.iter().position(|entry| entry.name == *name);
            let mut options = listed.map(|index| plan.recipe.plugins[index].options.clone()).unwrap_or_default();
            if name == "checkpoint" {
                let dir = options.get("dir").and_then(toml::Value::as_str).unwrap_or("checkpoints");
                if dir.is_empty() || !Path::new(dir).components().all(|part| matches!(part, Component::Normal(_))) {
                    let message = format!("checkpoints stay in the run's folder, so `dir` cannot be {dir:?}");
                    return Err(plan.document.error_at("plugins", message));
                }
                let dir = run.join(dir).display().to_string();
                options.insert("dir".into(), dir.into());
            }
            plugin.handler(options).map_err(|error| match listed {
                Some(index) => plan.document.error_at(&format!("plugins.{index}.options"), error.to_string()),
                None => RecipeError::from(error),
            })
        })
        .collect()
}
