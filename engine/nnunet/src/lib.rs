//! nnU-Net v2 without Python: its files, and its arithmetic on plain arrays.
//!
//! A trained model is a folder ([`ModelFolder`]) with [`Plans`], a [`DatasetJson`] and a checkpoint
//! per fold. [`preprocess`] makes the network's input of an image, [`window`] cuts it into tiles and
//! adds up their outputs as nnU-Net does, in half precision, and [`export`] makes label maps of the
//! sum. The network itself, and the reading of images, are not here: this crate has no tensor.
//!
//! [`planner`] makes plans of a data set's fingerprint, and [`augment`] is what training does to
//! patches.
//!
//! Arrays are `[channel, z, y, x]`, the last axis fastest, as nnU-Net's are; spacings and shapes are
//! in the same order.

#![forbid(unsafe_code)]

mod architecture;
pub mod augment;
mod cases;
pub mod checkpoint;
mod dataset;
mod error;
pub mod export;
mod folder;
mod json;
mod labels;
mod normalize;
mod pairwise;
pub mod planner;
mod plans;
pub mod postprocess;
pub mod preprocess;
pub mod probabilities;
pub mod resample;
pub mod total;
mod volume;
pub mod window;

pub use architecture::{Architecture, NetworkClass, Nonlin, NormOp};
pub use cases::{Case, Listed, cases, listed};
pub use dataset::DatasetJson;
pub use error::{NnunetError, Result};
pub use folder::{Folds, ModelFolder};
pub use json::parse as parse_json;
pub use labels::{LabelManager, Writes};
pub use normalize::{Intensities, Scheme};
pub use plans::{Configuration, Plans};
pub use resample::{Resampling, ResamplingFunction};
pub use volume::{Axes3, Volume};
