//! The plugin `checkpoint`: the library's handler [`Checkpoints`] behind the doors of a plugin. Place it after `validation`.

use std::path::PathBuf;

use hearth_handlers::{Checkpoints, CheckpointsOptions};
use hearth_plugin::{export_plugin, options};

options! {
    /// Options of the plugin.
    pub struct Options {
        /// Folder of the checkpoints, within the run's folder.
        dir: PathBuf = "checkpoints".into(),
        /// A checkpoint every so many epochs; 0 for none.
        every_epochs: u64 = 1,
        /// A checkpoint every so many iterations; 0 for none.
        every_iterations: u64 = 0,
        /// The newest so many of them stay; 0 keeps all.
        keep_last: usize = 3,
        /// A checkpoint of the best key metric.
        best: bool = true,
        /// A checkpoint when the run is interrupted.
        on_interrupt: bool = true,
        /// A checkpoint when the run ends.
        on_completed: bool = true,
    }
}

/// The handler with these options.
pub fn handler(options: Options) -> Checkpoints {
    let Options { dir, every_epochs, every_iterations, keep_last, best, on_interrupt, on_completed } = options;
    Checkpoints::new(CheckpointsOptions {
        dir,
        every_epochs,
        every_iterations,
        keep_last,
        best,
        on_interrupt,
        on_completed,
    })
}

export_plugin!("checkpoint", Options, handler);
