//! Transforms of medical images, and pipelines of them.
//!
//! A [`Pipeline`] of [`transforms`] turns the files of a case into [`Sample`]s. Every random draw
//! depends only on seed, epoch, case, transform and rank ([`DrawKey`]), so that the number of
//! threads, the cache and resuming do not change results.

#![forbid(unsafe_code)]

mod cucim;
mod draw;
mod effect;
mod error;
mod from_tables;
mod image_fn;
mod nested;
mod on_demand;
mod optional;
pub mod params;
pub mod patches;
mod pipeline;
mod sample;
pub mod tiny;
mod transform;
pub mod transforms;

pub use cucim::cucim_names;
pub use draw::{Draw, DrawKey};
pub use effect::Effect;
pub use error::{StepError, ValueState};
pub use from_tables::{RecipeOptions, build_transform};
pub use image_fn::image_fn;
pub use nested::{all_steps, for_each_step};
pub use on_demand::{BoxSource, IndexList, IndexSource, StoredImage, StoredIndices};
pub use optional::Optional;
pub use params::Keys;
pub use pipeline::Pipeline;
pub use sample::{Sample, Value};
pub use transform::{Steps, Transform};
