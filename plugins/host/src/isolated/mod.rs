//! Isolated plugins, each in its own process: a crash, an exit or a hang of the plugin is an error
//! of its handler, and the run continues.
//!
//! The program starts itself again with a command that calls [`serve_isolated`]. Events, requests
//! and answers are messages over a socket pair; the elements of tensors are in shared memory.

mod child;
mod component;
mod confine;
mod handler;
mod process;
mod wire;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hearth_engine::Handler;
use hearth_registry::Fault;
use hearth_registry::component::Component;

pub use child::serve as serve_isolated;

use crate::error::PluginError;
use crate::file::{Identity, examine};
use crate::report::{Info, Report};
use crate::search::Found;
use component::IsolatedComponent;
use handler::Isolated;
use process::{LOADING, Process};
use wire::{Order, SentFault, Source, Word};

/// The command that calls [`serve_isolated`]: program and arguments.
static COMMAND: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sets the command by which this program starts a plugin's process: it must call
/// [`serve_isolated`] and do nothing else. The first call counts.
pub fn isolate_with(command: impl IntoIterator<Item = OsString>) {
    COMMAND.get_or_init(|| command.into_iter().collect());
}

/// A plugin that is loaded in separate processes, one for each of its handlers.
#[derive(Clone, Debug)]
pub struct Apart {
    name: String,
    source: Source,
    limit: Duration,
}

impl Apart {
    /// Loads the plugin in a process, and queries its description. None of its code runs in this
    /// process.
    pub fn open(found: &Found, limit: Duration) -> Result<(Self, Info), PluginError> {
        let (identity, source) = match found {
            Found::File { path, .. } => {
                let full = path.canonicalize().map_err(|source| PluginError::File { path: path.clone(), source })?;
                (examine(path)?, Source::File(full))
            }
            Found::BuiltIn(linked) => {
                let identity = Identity::of(linked.identity);
                let source = Source::BuiltIn(identity.name.clone());
                (identity, source)
            }
        };
        let apart = Self { name: identity.name.clone(), source, limit };
        let (_, word) = apart.start(None)?;
        let Word::Loaded(json) = word else { return Err(apart.error(refusal(word))) };
        let report: Report = serde_json::from_str(&json).map_err(|error| apart.error(error.to_string()))?;
        let info = report.info.ok_or_else(|| apart.error("it reports nothing".to_owned()))?;
        // The path as it was given.
        let path = found.file().map(Path::to_owned);
        Ok((apart, Info { path, ..info }))
    }

    /// Creates a handler, in a process.
    pub fn handler(&self, options: &toml::Table) -> Result<Box<dyn Handler>, PluginError> {
        let text = toml::to_string(options);
        let text = text.map_err(|error| self.error(format!("its options cannot be passed on: {error}")))?;
        match self.start(Some(text))? {
            (process, Word::Made { name, whens, events, on_error, ranks }) => {
                Ok(Box::new(Isolated::new(process, self.limit, name, whens, events, on_error, ranks)))
            }
            (_, Word::Refused(fault)) if fault.of_options => {
                Err(PluginError::Options { name: self.name.clone(), fault: Box::new(SentFault::received(fault)) })
            }
            (_, word) => Err(self.error(refusal(word))),
        }
    }

    /// Creates a component, in a process.
    pub fn component(&self, name: &str, options: &toml::Table, version: String) -> Result<Arc<dyn Component>, Fault> {
        let plain = |error: PluginError| Fault::at("name", error.to_string());
        let options = toml::to_string(options)
            .map_err(|error| plain(self.error(format!("its options cannot be passed on: {error}"))))?;
        let order = Order::Make { source: self.source.clone(), name: name.to_owned(), options };
        match self.begin(&order).map_err(plain)? {
            (process, Word::Built) => Ok(Arc::new(IsolatedComponent::new(process, self.limit, version))),
            (_, Word::Refused(fault)) => Err(fault.received()),
            (_, word) => Err(plain(self.error(refusal(word)))),
        }
    }

    fn start(&self, options: Option<String>) -> Result<(Process, Word), PluginError> {
        self.begin(&Order::Load { source: self.source.clone(), options })
    }

    /// Starts a process, and sends it its first order.
    fn begin(&self, order: &Order) -> Result<(Process, Word), PluginError> {
        let Some([program, arguments @ ..]) = COMMAND.get().map(Vec::as_slice) else {
            return Err(self.error("this program has no command for isolated plugins".to_owned()));
        };
        let mut command = Command::new(program);
        command.args(arguments);
        let process = Process::start(command);
        let mut process = process.map_err(|error| self.error(format!("no process can be started for it: {error}")))?;
        process.allow(LOADING);
        let word = process.ask(order);
        let word = word.map_err(|over| self.error(format!("while it was loaded, {over}")))?;
        Ok((process, word))
    }

    fn error(&self, why: String) -> PluginError {
        PluginError::Plugin { name: self.name.clone(), why }
    }
}

/// The error of an unexpected answer.
fn refusal(word: Word) -> String {
    match word {
        Word::Refused(fault) => fault.received().message,
        _ => "its process gave an unexpected answer".to_owned(),
    }
}
