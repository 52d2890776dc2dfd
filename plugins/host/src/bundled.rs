//! The bundled plugins as they are linked into every program that has a host. A file of the same name
//! takes precedence: [`Search::standard`](crate::Search::standard) looks here last.

use hearth_plugin::abi::Linked;

/// All of them, by name.
pub static BUNDLED: [&Linked; 5] = [
    &hearth_checkpoint::PLUGIN,
    &hearth_ensemble::PLUGIN,
    &hearth_nvtx::PLUGIN,
    &hearth_stats::PLUGIN,
    &hearth_validation::PLUGIN,
];
