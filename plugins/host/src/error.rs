//! Errors of finding and loading plugins: [`PluginError`].

use std::fmt;
use std::path::PathBuf;

use hearth_registry::Fault;

use crate::file::Identity;

/// The reason why a plugin was not found, was not loaded, or built no handler.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// There is no plugin of this name in any of the searched places.
    #[error("no plugin `{name}`{meant}; looked in:{looked}")]
    NotFound {
        /// The requested name.
        name: String,
        /// A suggestion, or empty.
        meant: String,
        /// Each place and the plugins in it, a line each.
        looked: String,
    },
    /// The value of `--plugin` is neither a file or folder nor the name of a known plugin.
    #[error("--plugin {word}: there is no such file or folder, and no plugin of this name{meant}; known are {known}")]
    NotGiven {
        /// The value.
        word: String,
        /// A suggestion, or empty.
        meant: String,
        /// The names of all plugins that were found.
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
        /// The problem.
        why: String,
    },
    /// The library has no plugin identity.
    #[error("{path} is a library, but not a Hearth plugin: it was built without `export_plugin!` or `HEARTH_PLUGIN`")]
    NotAPlugin {
        /// The file.
        path: PathBuf,
    },
    /// The plugin was built for another Hearth.
    #[error("{0}")]
    Mismatch(Box<Mismatch>),
    /// Other users can replace the library.
    #[error("{path} is not loaded: everyone on this machine can change {place}\n  fix it: chmod o-w {place}")]
    Writable {
        /// The library.
        path: PathBuf,
        /// The file or folder that others can write.
        place: PathBuf,
    },
    /// The operating system could not load the library.
    #[error("plugin `{name}` ({path}) cannot be loaded: {why}")]
    Open {
        /// The plugin's name.
        name: String,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        why: String,
    },
    /// An option is invalid, or the plugin refuses it.
    #[error("plugin `{name}`: {fault}")]
    Options {
        /// The plugin's name.
        name: String,
        /// The option, the problem, and a suggestion.
        fault: Box<Fault>,
    },
    /// A call of the plugin failed.
    #[error("plugin `{name}`: {why}")]
    Plugin {
        /// The plugin's name.
        name: String,
        /// Its message.
        why: String,
    },
}

/// The error of a plugin that was built for another Hearth. Its text has four lines, and ends with
/// the command that rebuilds the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The file.
    pub path: PathBuf,
    /// The plugin's identity.
    pub identity: Identity,
    /// The difference.
    pub why: String,
    /// The tools it was built with.
    pub built: String,
    /// The versions that this host accepts.
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
