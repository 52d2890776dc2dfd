//! `[[plugins]]`: a plugin and its options.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::listens::Listens;

/// Time for an event of a plugin in a process of its own.
const USUAL_LIMIT: Duration = Duration::from_secs(60);
/// The longest that can be given, in seconds: a day.
const LONGEST_LIMIT: f64 = 86_400.0;

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
    /// Whether it runs in a process of its own: a crash of it disables it, and the run goes on (Linux).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub isolated: bool,
    /// Of one that is isolated: seconds for an event, without those that its requests take; 60 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<f64>,
    /// Its options.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub options: toml::Table,
}

impl PluginEntry {
    /// The plugins of a run unless its recipe says otherwise.
    pub(super) fn usual() -> Vec<Self> {
        ["validation", "stats", "checkpoint"]
            .map(|name| Self {
                name: name.into(),
                engine: Listens::Train,
                path: None,
                isolated: false,
                time_limit: None,
                options: toml::Table::new(),
            })
            .to_vec()
    }

    /// Its time for an event where it is isolated.
    pub fn limit(&self) -> Duration {
        // What is given was checked.
        self.time_limit.map_or(USUAL_LIMIT, |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(USUAL_LIMIT))
    }

    /// What is wrong with it, and in which of its keys.
    pub(super) fn mistake(&self) -> Option<(&'static str, String)> {
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
