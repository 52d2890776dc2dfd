//! The plugin `checkpoint`: wraps the library's handler [`Checkpoints`]. Place it after
//! `validation`.

#![forbid(unsafe_code)]

use hearth_handlers::{Checkpoints, CheckpointsOptions};
use hearth_plugin::{Described, export_plugin};

/// Options of the plugin: the handler's.
pub type Options = Described<CheckpointsOptions>;

/// The handler with these options.
pub fn handler(options: Options) -> Checkpoints {
    Checkpoints::new(options.0)
}

export_plugin!("checkpoint", Options, handler, needs: [FILES]);
