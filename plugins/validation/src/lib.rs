//! The plugin `validation`: the library's handler [`Validation`] behind the doors of a plugin.

use hearth_handlers::{Validation, ValidationOptions};
use hearth_plugin::{HandlerError, export_plugin, options};

options! {
    /// Options of the plugin.
    pub struct Options {
        /// Validate every so many epochs or iterations.
        interval: u64 = 1,
        /// Count epochs; otherwise iterations.
        epoch_level: bool = true,
        /// Validate before the first epoch as well.
        exec_at_start: bool = false,
        /// The engine to run.
        engine: String = "validation".into(),
    }
}

/// The handler with these options.
///
/// # Errors
/// When `interval` is 0.
pub fn handler(options: Options) -> Result<Validation, HandlerError> {
    let Options { interval, epoch_level, exec_at_start, engine } = options;
    Validation::new(ValidationOptions { interval, epoch_level, exec_at_start, engine })
        .map_err(|fault| HandlerError::new(fault.message))
}

export_plugin!("validation", Options, handler);
