//! The plugin `validation`: wraps the library's handler [`Validation`].

#![forbid(unsafe_code)]

use hearth_handlers::{Validation, ValidationOptions};
use hearth_plugin::{Described, Fault, export_plugin};

/// Options of the plugin: the handler's.
pub type Options = Described<ValidationOptions>;

/// The handler with these options.
///
/// # Errors
/// If `interval` is 0.
pub fn handler(options: Options) -> Result<Validation, Fault> {
    Validation::new(options.0)
}

export_plugin!("validation", Options, handler, needs: [CHANGES_RUN]);
