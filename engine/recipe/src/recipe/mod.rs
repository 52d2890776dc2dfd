//! Recipes: TOML files that describe a run.
//!
//! ```toml
//! task = "spleen"
//! labels = ["background", "spleen"]          # class 0 first
//! transforms = [{ name = "LoadImage", keys = ["image", "label"] }]
//!
//! [data]                                     # validation = { last = 9 } or { fraction = 0.2 }, cache, sampler, workers
//! [network]                                  # name = "UNet" and MONAI's parameters
//! [loss]                                     # name = "DiceCELoss", ...
//! [discriminator]                            # of a generator: name = "Discriminator", ...
//! [adversarial]                              # loss, optimizer, d_train_steps, ...
//! [optimizer]                                # name = "SGD", lr = 0.2, ...
//! [schedule]                                 # name = "Cosine", ...
//! [training]                                 # epochs, batch_size, val_interval, seed, precision, device
//! [inferer]                                  # name = "SlidingWindowInferer", ...
//! [init]                                     # weights, freeze
//! [metric.dice]                              # name = "DiceMetric", ...
//! [tta]                                      # flips, transforms
//! [profile]                                  # wait, warmup, active, repeat, unit, ranks, out, layers, ranges
//! [[plugins]]                                # name, engine, options, path
//! [[handlers]]                               # name, engine and its options
//! ```
//!
//! A recipe is read in two steps: the text becomes a tree that keeps positions ([`Document`]), in
//! which `--set` changes values; then the tree becomes a [`Recipe`]. Every error has the position
//! and, for a misspelt name, the nearest known one.

mod adversarial;
pub mod bundled;
mod distributed;
mod drop_last;
mod folds;
mod ignored;
mod init;
mod labels;
mod listens;
pub mod metric;
mod not_a_number;
mod of_plugins;
mod output;
mod plugin_entry;
mod plugin_sets;
mod plugins_apart;
pub mod post;
mod previous;
mod profile_steps;
mod schema;
#[cfg(test)]
mod sources;
mod steps;
mod train_metrics;
mod tta;
mod workers;

pub use adversarial::Adversarial;
pub use distributed::{Cards, Distributed, Mode, Overlap};
pub use drop_last::DropLast;
pub use folds::{FoldMethod, Folds};
pub use init::Init;
pub use listens::Listens;
pub use metric::Metric;
pub use output::{Output, TaskEntry};
pub use plugin_entry::PluginEntry;
pub use plugin_sets::{PluginChanges, leave_out, list_for_sets, list_given};
pub use plugins_apart::isolate;
pub use previous::PreviousStage;
pub use profile_steps::{ProfileSteps, ProfiledRanks, RangesTo};
pub use schema::{Data, Post, PrecisionWord, Recipe, Training, Validation};
pub use train_metrics::TrainMetrics;
pub use tta::Tta;

pub use hearth_registry::{Document, Fault, Node};
