//! The bundled plugins, linked into every program with a host. A file of the same name takes
//! precedence: [`Search::standard`](crate::Search::standard) searches here last.

use hearth_plugin::abi::Linked;

/// All bundled plugins, by name.
pub static BUNDLED: [&Linked; 5] = [
    &hearth_checkpoint::PLUGIN,
    &hearth_ensemble::PLUGIN,
    &hearth_nvtx::PLUGIN,
    &hearth_stats::PLUGIN,
    &hearth_validation::PLUGIN,
];
