//! `[[plugins]]`: a plugin and its options.

use serde::{Deserialize, Serialize};

use super::listens::Listens;

/// A plugin and its options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginEntry {
    /// Its name.
    pub name: String,
    /// Whose events it listens to.
    #[serde(default, skip_serializing_if = "Listens::is_train")]
    pub engine: Listens,
    /// Its library, or the folder that holds it; otherwise it is searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<std::path::PathBuf>,
    /// Its options.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub options: toml::Table,
}

impl PluginEntry {
    /// The plugins of a run unless its recipe says otherwise.
    pub(super) fn usual() -> Vec<Self> {
        ["validation", "stats", "checkpoint"]
            .map(|name| Self { name: name.into(), engine: Listens::Train, path: None, options: toml::Table::new() })
            .to_vec()
    }
}
