//! `[[plugins]]`: a plugin and its options.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use hearth_registry::Node;
use hearth_registry::component::Places;

use super::Document;
use super::listens::Listens;

/// The default time limit for an event of an isolated plugin.
const USUAL_LIMIT: Duration = Duration::from_secs(60);
/// The largest time limit in seconds: a day.
const LONGEST_LIMIT: f64 = 86_400.0;

/// A plugin and its options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginEntry {
    /// The name of the plugin.
    pub name: String,
    /// The name of this instance, where a run has several of one plugin: its handler and its state have
    /// this name.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// The engine whose events it receives.
    #[serde(default, skip_serializing_if = "Listens::is_train")]
    pub engine: Listens,
    /// The library of the plugin, or the folder that contains it; by default it is searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<std::path::PathBuf>,
    /// Whether it runs in its own process (Linux): a crash disables the plugin, and the run continues.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub isolated: bool,
    /// The time limit of an isolated plugin in seconds per event, without the time of its requests;
    /// 60 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<f64>,
    /// The options of the plugin.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub options: toml::Table,
}

/// The name of an entry's instance.
pub(super) fn called(entry: &Node) -> Option<&str> {
    entry.text("as").or_else(|| entry.text("name"))
}

/// What a document says about its plugins, for their components.
pub(super) fn places_in(document: &Document) -> Places {
    let entries = document.find("plugins").items();
    let isolated = entries.iter().filter(|entry| entry.get("isolated").map(Node::to_toml) == Some(true.into()));
    let limit = |entry: &Node| hearth_registry::read(entry.find("time_limit")).ok().map(limit_of);
    Places {
        paths: entries.iter().filter_map(|entry| Some(entry.text("path")?.into())).collect(),
        // A wrong limit is reported with the recipe's other keys.
        isolated: isolated
            .filter_map(|entry| Some((entry.text("name")?.to_owned(), limit(entry).unwrap_or(USUAL_LIMIT))))
            .collect(),
    }
}

/// The time limit of this number of seconds.
fn limit_of(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(USUAL_LIMIT)
}

impl PluginEntry {
    /// The plugins of a run if the recipe lists none.
    pub(super) fn usual() -> Vec<Self> {
        ["validation", "stats", "checkpoint"]
            .map(|name| Self {
                name: name.into(),
                alias: None,
                engine: Listens::Train,
                path: None,
                isolated: false,
                time_limit: None,
                options: toml::Table::new(),
            })
            .to_vec()
    }

    /// The name of its instance.
    pub fn called(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.name)
    }

    /// The time limit for an event of an isolated plugin.
    pub fn limit(&self) -> Duration {
        // Given values were checked.
        self.time_limit.map_or(USUAL_LIMIT, limit_of)
    }

    /// An invalid key, and what is wrong with it.
    pub(super) fn mistake(&self) -> Option<(&'static str, String)> {
        if let Some(alias) = &self.alias {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            if alias.is_empty() || !alias.chars().all(plain) {
                return Some(("as", format!("{alias:?} is no name: use letters, digits, - and _")));
            }
            if ["validation", "checkpoint"].contains(&self.name.as_str()) {
                return Some(("as", format!("a run has one {:?}: remove `as`", self.name)));
            }
        }
        let seconds = self.time_limit?;
        if !self.isolated {
            let what = "there is a limit in a process of its own only; add isolated = true, or remove it";
            return Some(("time_limit", what.to_owned()));
        }
        let possible = seconds > 0.0 && seconds <= LONGEST_LIMIT;
        (!possible).then(|| {
            ("time_limit", format!("{seconds} s is no limit; give more than 0 and at most {LONGEST_LIMIT} seconds"))
        })
    }
}
