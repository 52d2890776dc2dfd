//! Why a plugin cannot be used: [`PluginError`].

use std::fmt;
use std::path::PathBuf;

use hearth_registry::Fault;

use crate::file::Identity;

/// Why a plugin was not found, not loaded, or built no handler.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// No plugin of this name in any of the searched places.
    #[error("no plugin `{name}`{meant}; looked in:{looked}")]
    NotFound {
        /// The requested name.
        name: String,
        /// A did-you-mean, or nothing.
        meant: String,
        /// Each place and the plugins in it, a line each.
        looked: String,
    },
    /// What `--plugin` gives is neither a file or folder nor the name of a plugin that is known.
    #[error("--plugin {word}: there is no such file or folder, and no plugin of this name{meant}; known are {known}")]
    NotGiven {
        /// What was given.
        word: String,
        /// A did-you-mean, or nothing.
        meant: String,
        /// The names of all plugins that are found.
        known: String,
    },
    /// There is no such file.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The file is not a library for this system, or is damaged.
    #[error("{path} is not a library that can be loaded: {why}")]
    NotALibrary {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A library without a plugin's identity.
    #[error("{path} is a library, but not a Hearth plugin: it was built without `export_plugin!` or `HEARTH_PLUGIN`")]
    NotAPlugin {
        /// The file.
        path: PathBuf,
    },
    /// A plugin that was built for another Hearth.
    #[error("{0}")]
    Mismatch(Box<Mismatch>),
    /// Others may replace the library.
    #[error("{path} is not loaded: everybody on this machine may change {place}\n  mend it: chmod o-w {place}")]
    Writable {
        /// The library.
        path: PathBuf,
        /// The file or folder that is open to others.
        place: PathBuf,
    },
    /// The operating system could not load the library.
    #[error("plugin `{name}` ({path}) cannot be loaded: {why}")]
    Open {
        /// Which plugin.
        name: String,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        why: String,
    },
    /// An option is invalid, or the plugin refuses it.
    #[error("plugin `{name}`: {fault}")]
    Options {
        /// Which plugin.
        name: String,
        /// Which option, what is wrong with it, and a suggestion.
        fault: Box<Fault>,
    },
    /// A call of the plugin failed.
    #[error("plugin `{name}`: {why}")]
    Plugin {
        /// Which plugin.
        name: String,
        /// Its message.
        why: String,
    },
}

/// A plugin that was built for another Hearth. Its text is four lines, and ends in the command that
/// rebuilds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The file.
    pub path: PathBuf,
    /// Which plugin.
    pub identity: Identity,
    /// What differs.
    pub why: String,
    /// What it was built with.
    pub built: String,
    /// What this host accepts.
    pub accepted: String,
    /// The command that rebuilds it.
    pub command: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, identity, why, built, accepted, command } = self;
        writeln!(f, "plugin `{}` {} ({}) cannot be loaded: {why}", identity.name, identity.version, path.display())?;
        writeln!(f, "  it was built with: {built}")?;
        writeln!(f, "  this host accepts: {accepted}")?;
        write!(f, "  rebuild it with:   {command}")
    }
}
