//! Isolated plugins on systems that do not support them.

use std::convert::Infallible;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use hearth_engine::Handler;
use hearth_registry::Fault;
use hearth_registry::component::Component;

use crate::error::PluginError;
use crate::report::Info;
use crate::search::Found;

/// Does nothing; see the function of the same name for Linux.
pub fn isolate_with(_: impl IntoIterator<Item = OsString>) {}

/// Fails.
///
/// # Errors
/// Always.
pub fn serve_isolated() -> std::io::Result<()> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "isolated plugins need Linux"))
}

/// Cannot exist on this system.
#[derive(Clone, Debug)]
pub struct Apart(Infallible);

impl Apart {
    /// Fails.
    pub fn open(found: &Found, _: Duration) -> Result<(Self, Info), PluginError> {
        let name = found.file().map_or_else(|| "built in".to_owned(), |path| path.display().to_string());
        Err(PluginError::Plugin { name, why: "isolating a plugin needs Linux".to_owned() })
    }

    /// Cannot be called.
    pub fn component(&self, _: &str, _: &toml::Table, _: String) -> Result<Arc<dyn Component>, Fault> {
        match self.0 {}
    }

    /// Cannot be called.
    pub fn handler(&self, _: &toml::Table) -> Result<Box<dyn Handler>, PluginError> {
        match self.0 {}
    }
}
