//! MONAI bundles: what `python -m monai.bundle run` does for inference, and a list of what a config
//! needs.
//!
//! [`hearth_bundle`] reads and resolves configs; here their components become Hearth's own transforms,
//! networks, inferers and metrics, through the registries that recipes use. Nothing of a bundle is
//! executed: what is not supported is named with file and id.

mod absent;
mod array;
mod array_form;
mod calls;
mod case;
mod chain;
mod checks;
mod classes;
mod comparison;
mod computed;
mod convert;
mod data;
mod evaluator;
mod field;
mod first;
mod handlers;
mod metrics;
mod missing;
mod model;
mod needs;
mod networks;
mod nodes;
mod npy;
mod one_by_one;
mod open;
mod run;
mod sampler;
mod save;
mod scores;
mod slides;
mod streams;
mod writing;

pub use convert::{Converted, convert};
pub use hearth_bundle::{Bundle, Fault, FaultKind, Metadata};
pub use model::BundleModel;
pub use needs::{ConfigNeeds, Part, needs};
pub use open::{OpenedBundle, open};
pub use run::{Report, RunOptions, Seen, Told, inference, run};

use std::path::PathBuf;

/// What components are built with.
#[derive(Clone, Debug, Default)]
struct Context {
    /// Where input paths count from.
    folder: PathBuf,
    /// Files in place of the config's list.
    images: Vec<String>,
    /// Whether images are given later, case by case: the config's list is not read.
    case_by_case: bool,
    /// The seed of what is drawn.
    seed: i64,
}
