//! MONAI bundles: inference like `python -m monai.bundle run`, and a list of a config's needs.
//!
//! [`hearth_bundle`] reads and resolves configs; this module converts their components to Hearth's
//! transforms, networks, inferers and metrics, through the registries that recipes use. No code of
//! a bundle is executed: unsupported parts are reported with file and id.

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
mod facts;
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
mod save_format;
mod scores;
mod slides;
mod streams;
mod writing;

pub use convert::{Converted, convert};
pub(crate) use facts::OF_RUN;
pub use hearth_bundle::{Bundle, Fault, FaultKind, Metadata};
pub use model::BundleModel;
pub use needs::{ConfigNeeds, Part, needs};
pub use open::{OpenedBundle, open};
pub use run::{Report, RunOptions, Seen, Told, inference, run};

use std::path::PathBuf;

/// The context in which components are built.
#[derive(Clone, Debug, Default)]
struct Context {
    /// The folder for relative input paths.
    folder: PathBuf,
    /// Files that replace the config's list.
    images: Vec<String>,
    /// Whether images are given later, case by case, so that the config's list is not read.
    case_by_case: bool,
    /// The seed of random draws.
    seed: i64,
    /// The metadata of the bundle.
    metadata: Option<Metadata>,
}
