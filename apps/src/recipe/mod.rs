//! Recipes: what a run does, as a TOML file.
//!
//! ```toml
//! task = "spleen"
//! labels = ["background", "spleen"]          # class 0 first
//! transforms = [{ name = "LoadImage", keys = ["image", "label"] }]
//!
//! [data]                                     # validation = { last = 9 } or { fraction = 0.2 }, cache, sampler, workers
//! [network]                                  # name = "UNet" and MONAI's parameters
//! [loss]                                     # name = "DiceCELoss", ...
//! [optimizer]                                # name = "SGD", lr = 0.2, ...
//! [schedule]                                 # name = "Cosine", ...
//! [training]                                 # epochs, batch_size, val_interval, seed, precision, device
//! [inferer]                                  # name = "SlidingWindowInferer", ...
//! [init]                                     # weights, freeze
//! [metric.dice]                              # name = "DiceMetric", ...
//! [tta]                                      # flips, transforms
//! [[plugins]]                                # name, options, path
//! [[handlers]]                               # name and its options
//! ```
//!
//! A recipe is read in two steps: the text into a tree that remembers positions ([`Document`]), where `--set` changes
//! values, and the tree into a [`Recipe`]. Every error names the place and, where a word is misspelt, the word meant.

pub mod bundled;
mod cache;
mod document;
mod init;
pub mod metric;
mod overrides;
pub mod post;
mod read;
mod sampler;
mod schema;
pub mod suggest;
mod tta;

pub use cache::{Cache, CacheDevice, CacheKind, Rate};
pub use document::{Document, Node, Origin};
pub use init::Init;
pub use metric::Metric;
pub use sampler::WeightedSampler;
pub use schema::{Data, HandlerEntry, InfererConfig, PluginEntry, Post, PrecisionWord, Recipe, Training, Validation};
pub use tta::Tta;
