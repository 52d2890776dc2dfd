//! Transforms of medical images, and pipelines of them.
//!
//! A [`Pipeline`] of [`transforms`] turns the files of a case into [`Sample`]s. Every random draw
//! depends only on seed, epoch, case, transform and rank ([`DrawKey`]), so that the number of
//! threads, the cache and resuming do not change results.
//!
//! ```
//! use hearth_transforms::transforms::{RandFlip, ScaleIntensityRange};
//! use hearth_transforms::{Pipeline, Sample, tiny};
//!
//! let scale = ScaleIntensityRange::new("image", -100.0, 100.0).b_min(0.0).b_max(1.0).clip(true);
//! let steps = Pipeline::new((scale, RandFlip::new("image").prob(0.5)))?;
//! let sample = Sample::new("case_1").with_image("image", tiny::line([-200.0, 0.0, 50.0]));
//! let fixed = steps.run_deterministic(sample)?; // what caches keep
//! assert_eq!(fixed[0].image("image")?.to_vec(), [0.0, 0.5, 0.75]);
//! let drawn = steps.run_random(fixed, steps.draw_key(1))?; // of epoch 1
//! assert_eq!(drawn.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
