//! nnU-Net v2 in recipes: data sets in its raw layout, images as its readers return them, its steps
//! as transforms, and recipes that train with its settings.

mod image;
mod listed;
mod raw;
mod source;
mod steps;
mod train;

pub use image::{CaseImage, Grid, Reader, read, read_labels};
pub use listed::{ListedSet, Listing};
pub use raw::NnunetRaw;
pub use source::Source;
pub use steps::{
    NnunetPreprocess, NnunetPreviousStage, Normalization, RandNnunetAugment, RandNnunetPatch, RandNnunetPreviousStage,
};
pub use train::{preprocessed_recipe, training_recipe};
