//! Changes of a recipe's list of plugins by the command line: `--plugin`, `--without`, and
//! `--set plugins.NAME.KEY=VALUE` for plugins that are not written in the recipe.

use std::path::{Path, PathBuf};

use hearth_plugin_host::{Given, inspect};

use hearth_registry::Node;

use super::plugin_entry::called;
use super::{Document, Fault, PluginEntry, Recipe};

/// The keys of an entry of `plugins`, including `options`.
const KEYS: [&str; 7] = ["name", "as", "engine", "path", "isolated", "time_limit", "options"];

/// The changes that the command line makes to the plugins of a resumed run.
#[derive(Clone, Debug, Default)]
pub struct PluginChanges {
    /// The plugins that it continues without, and handlers whose state is dropped.
    pub without: Vec<String>,
    /// The names of the plugins of `--plugin`: they may be new, or in another place.
    pub given: Vec<String>,
}

impl PluginChanges {
    /// The changes of `--without` and `--plugin`.
    pub fn of(without: &[String], given: &[PathBuf]) -> Self {
        let given = libraries(given).into_iter().map(|(name, _)| name).collect();
        Self { without: without.to_vec(), given }
    }
}

/// Adds the plugins of `--plugin` that the recipe does not list to the document, so that the run's recipe
/// has them, and a resumed run, too.
///
/// # Errors
/// A list in the recipe that cannot be changed.
pub fn list_given(document: &mut Document, given: &[PathBuf]) -> Result<(), Fault> {
    for (name, path) in libraries(given) {
        let option =
            path.as_ref().map_or_else(|| format!("--plugin {name}"), |path| format!("--plugin {}", path.display()));
        list_usual(document)?;
        if document.find("plugins").items().iter().any(|entry| entry.text("name") == Some(&name)) {
            continue;
        }
        document.push(&option, "plugins", entry_of(&name, path.as_deref()))?;
    }
    Ok(())
}

/// Removes plugins from the document.
pub fn leave_out(document: &mut Document, names: &[String]) {
    let is_left_out = |entry: &Node| called(entry).is_some_and(|name| names.iter().any(|left| left == name));
    document.retain("plugins", |entry| !is_left_out(entry));
}

/// Writes out the plugins of the assignments that every run has.
///
/// # Errors
/// A list in the recipe that cannot be changed.
pub fn list_for_sets(document: &mut Document, sets: &[String]) -> Result<(), Fault> {
    for (name, key) in sets.iter().filter_map(|set| meant(set)) {
        list_usual(document)?;
        let listed = document.find("plugins").items().iter().find(|entry| called(entry) == Some(name));
        if listed.is_some_and(|entry| entry.get("options").is_none() && !KEYS.contains(&key)) {
            document.set_option("--set", &format!("plugins.{name}.options"), "{}")?;
        }
        // An unknown name is an error of the assignment itself.
        own_key(document, name, key)?;
    }
    Ok(())
}

/// The plugins of `--plugin`: names, and the library of each plugin given as a file.
fn libraries(given: &[PathBuf]) -> Vec<(String, Option<PathBuf>)> {
    let of = |word: &PathBuf| match Given::of(word) {
        Given::Path(path) if path.is_file() => {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            Some((inspect(path).ok()?.name, Some(absolute)))
        }
        Given::Path(_) => None,
        Given::Name(name) => Some((name.to_owned(), None)),
    };
    given.iter().filter_map(of).collect()
}

/// Adds the key with a placeholder that the assignment replaces: a missing key would be taken for
/// an option of the plugin.
fn own_key(document: &mut Document, name: &str, key: &str) -> Result<(), Fault> {
    let value: toml::Value = match key {
        "isolated" => false.into(),
        "time_limit" => 1.0.into(),
        "engine" => "train".into(),
        "path" => "".into(),
        _ => return Ok(()),
    };
    let place = document.find("plugins").items().iter().position(|entry| called(entry) == Some(name));
    let Some(index) = place else { return Ok(()) };
    let entry = &document.find("plugins").items()[index];
    if entry.get("options").is_some() && entry.get(key).is_none() {
        document.insert("--set", &format!("plugins.{index}"), key, value)?;
    }
    Ok(())
}

/// Writes the default plugins explicitly, if the recipe lists none.
pub(super) fn list_usual(document: &mut Document) -> Result<(), Fault> {
    if document.root().get("plugins").is_none() {
        // The task decides which these are; a recipe that `--set` completes cannot be read yet.
        let usual = Recipe::read(document).map_or_else(|_| PluginEntry::usual(), |recipe| recipe.plugins);
        let entries = usual.into_iter().map(|entry| entry_of(&entry.name, None)).collect();
        document.insert("the default plugins", "", "plugins", toml::Value::Array(entries))?;
    }
    Ok(())
}

/// The plugin's name and the first key after it in `plugins.NAME.KEY=VALUE`.
fn meant(set: &str) -> Option<(&str, &str)> {
    let (key, _) = set.split_once('=')?;
    let mut parts = key.trim().split('.');
    let (list, name, key) = (parts.next()?, parts.next()?, parts.next()?);
    (list == "plugins" && name.parse::<usize>().is_err()).then_some((name, key))
}

fn entry_of(name: &str, path: Option<&Path>) -> toml::Value {
    let mut entry = toml::Table::from_iter([("name".to_owned(), name.into())]);
    if let Some(path) = path {
        entry.insert("path".into(), path.to_string_lossy().into_owned().into());
    }
    entry.insert("options".into(), toml::Value::Table(toml::Table::new()));
    entry.into()
}

#[cfg(test)]
mod tests {
    use super::super::isolate;
    use super::*;

    fn set(text: &str, sets: &[&str]) -> Result<Document, Fault> {
        let mut document = Document::parse("recipe.toml", text)?;
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        list_for_sets(&mut document, &sets)?;
        sets.iter().try_for_each(|set| document.set(set))?;
        Ok(document)
    }

    #[test]
    fn plugins_that_every_run_has_take_options() {
        let document = set("", &["plugins.stats.every_iterations=5", "plugins.checkpoint.keep_last=1"]).unwrap();
        let names: Vec<_> = document.find("plugins").items().iter().filter_map(|entry| entry.text("name")).collect();
        assert_eq!(names, ["validation", "stats", "checkpoint"]);
        let options = |index: usize| document.find(&format!("plugins.{index}.options")).to_toml().to_string();
        assert_eq!(options(1), "{ every_iterations = 5 }");
        assert_eq!(options(2), "{ keep_last = 1 }");
    }

    #[test]
    fn an_entry_without_options_takes_them_and_keeps_its_keys() {
        let text = "[[plugins]]\nname = \"stats\"\n[[plugins]]\nname = \"nvtx\"\n";
        let document = set(text, &["plugins.stats.every_epochs=2", "plugins.nvtx.engine=\"validation\""]).unwrap();
        assert_eq!(document.find("plugins.0.options").to_toml().to_string(), "{ every_epochs = 2 }");
        assert!(document.find("plugins.1").get("options").is_none());
        assert_eq!(document.find("plugins.1").text("engine"), Some("validation"));
    }

    #[test]
    fn keys_of_the_entry_are_no_options() {
        let sets = ["plugins.stats.isolated=true", "plugins.stats.time_limit=2.5", "plugins.stats.every_epochs=3"];
        let document = set("", &sets).unwrap();
        let entry = document.find("plugins.1").to_toml();
        assert_eq!((entry.get("isolated"), entry.get("time_limit")), (Some(&true.into()), Some(&2.5.into())));
        assert_eq!(document.find("plugins.1.options").to_toml().to_string(), "{ every_epochs = 3 }");
    }

    #[test]
    fn given_plugins_are_listed_and_others_left_out() {
        let names = |document: &Document| -> Vec<String> {
            document.find("plugins").items().iter().filter_map(|entry| Some(entry.text("name")?.to_owned())).collect()
        };
        let mut document = Document::parse("recipe.toml", "").unwrap();
        list_given(&mut document, &["nvtx".into()]).unwrap();
        assert_eq!(names(&document), ["validation", "stats", "checkpoint", "nvtx"]);
        list_given(&mut document, &["nvtx".into()]).unwrap();
        assert_eq!(names(&document).len(), 4);
        leave_out(&mut document, &["stats".to_owned(), "other".to_owned()]);
        assert_eq!(names(&document), ["validation", "checkpoint", "nvtx"]);
    }

    /// A fault shows the line of the recipe where there is one, and else the words of the option.
    #[test]
    fn an_entry_keeps_its_place_in_the_text_when_the_list_changes() {
        let text = "[[plugins]]\nname = \"stats\"\nengin = \"train\"\n[[plugins]]\nname = \"checkpoint\"\n";
        let mut document = Document::parse("recipe.toml", text).unwrap();
        list_given(&mut document, &["nvtx".into()]).unwrap();
        leave_out(&mut document, &["checkpoint".to_owned()]);
        isolate(&mut document, &["stats".to_owned()]).unwrap();
        let fault = document.fault("plugins.0.engin", "unknown key").to_string();
        assert!(fault.starts_with("recipe.toml:3:"), "{fault}");
        assert_eq!(document.fault("plugins.0.isolated", "wrong").to_string(), "--isolated: wrong");
        assert_eq!(document.fault("plugins.1.name", "wrong").to_string(), "--plugin nvtx: wrong");
        list_for_sets(&mut document, &["plugins.stats.time_limit=2".to_owned()]).unwrap();
        document.set("plugins.stats.time_limit=2").unwrap();
        let fault = document.fault("plugins.0.time_limit", "wrong").to_string();
        assert_eq!(fault, "--set plugins.stats.time_limit=2: wrong");
    }

    #[test]
    fn a_name_that_nobody_has_is_an_error() {
        let text = "[[plugins]]\nname = \"stats\"\n";
        let fault = set(text, &["plugins.stat.every_epochs=2"]).unwrap_err();
        assert!(fault.to_string().contains("stats"), "{fault}");
    }
}
