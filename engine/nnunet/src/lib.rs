//! nnU-Net v2 without Python: its files, and its arithmetic on plain arrays.
//!
//! A trained model is a folder ([`ModelFolder`]) with [`Plans`], a [`DatasetJson`] and a checkpoint
//! per fold. [`preprocess`] converts an image to the network's input; [`window`] cuts it into tiles
//! and adds up their outputs as nnU-Net does, in half precision; [`export`] converts the sum to
//! label maps. Running the network and reading images are the tasks of other crates: this crate has
//! no tensors.
//!
//! [`planner`] makes plans from a data set's fingerprint, and [`augment`] has the augmentation of
//! training patches.
//!
//! Arrays are `[channel, z, y, x]`, the last axis fastest, as in nnU-Net; spacings and shapes have
//! the same order.

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
