//! `--isolated`: plugins in their own processes, by the command line.

use super::plugin_entry::called;
use super::plugin_sets::list_usual;
use super::{Document, Fault};

/// The option.
const OPTION: &str = "--isolated";

/// Marks the named plugins in the document as isolated; without names all of them.
///
/// # Errors
/// A name that no plugin of the run has.
pub fn isolate(document: &mut Document, names: &[String]) -> Result<(), Fault> {
    list_usual(document)?;
    let listed = |document: &Document| -> Vec<String> {
        let name = |entry: &hearth_registry::Node| called(entry).unwrap_or_default().to_owned();
        document.find("plugins").items().iter().map(name).collect()
    };
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let present = listed(document);
    if let Some(unknown) = names.iter().find(|name| !present.contains(*name)) {
        let what = format!("{OPTION}={unknown}: this run has no such plugin; it has {}", present.join(", "));
        return Err(Fault::new(what));
    }
    for (index, _) in present.iter().enumerate().filter(|(_, name)| wanted(name)) {
        let marked = document.find("plugins").items()[index].get("isolated").map(hearth_registry::Node::to_toml);
        if marked != Some(true.into()) {
            document.insert(OPTION, &format!("plugins.{index}"), "isolated", true.into())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::list_for_sets;

    fn isolated(text: &str, names: &[&str]) -> Result<Vec<(String, bool)>, Fault> {
        let mut document = Document::parse("recipe.toml", text)?;
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        isolate(&mut document, &names)?;
        let entry = |entry: &hearth_registry::Node| {
            let table = entry.to_toml();
            let marked = table.get("isolated").and_then(toml::Value::as_bool) == Some(true);
            (entry.text("name").unwrap_or_default().to_owned(), marked)
        };
        Ok(document.find("plugins").items().iter().map(entry).collect())
    }

    #[test]
    fn all_or_those_that_are_named() {
        let pairs = |list: &[(&str, bool)]| list.iter().map(|(name, is)| ((*name).to_owned(), *is)).collect::<Vec<_>>();
        assert_eq!(isolated("", &[]).unwrap(), pairs(&[("validation", true), ("stats", true), ("checkpoint", true)]));
        let text = "[[plugins]]\nname = \"stats\"\noptions = { every_epochs = 2 }\n[[plugins]]\nname = \"nvtx\"\n";
        assert_eq!(isolated(text, &["stats"]).unwrap(), pairs(&[("stats", true), ("nvtx", false)]));
        let fault = isolated(text, &["stat"]).unwrap_err().to_string();
        assert!(fault.contains("--isolated=stat") && fault.contains("stats, nvtx"), "{fault}");
    }

    #[test]
    fn options_are_set_as_before() {
        let text = "[[plugins]]\nname = \"stats\"\noptions = { every_epochs = 2 }\n";
        let mut document = Document::parse("recipe.toml", text).unwrap();
        isolate(&mut document, &[]).unwrap();
        let sets = ["plugins.stats.every_epochs=3".to_owned(), "plugins.stats.isolated=false".to_owned()];
        list_for_sets(&mut document, &sets).unwrap();
        sets.iter().try_for_each(|set| document.set(set)).unwrap();
        assert_eq!(document.find("plugins.0.options").to_toml().to_string(), "{ every_epochs = 3 }");
        assert_eq!(document.find("plugins.0.isolated").to_toml(), false.into());
    }
}
