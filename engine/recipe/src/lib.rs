//! Recipes: from a TOML file to a trainer, an evaluator and a predictor.
//!
//! * [`recipe`]: what a recipe can say, its text with positions, `--set`, the bundled ones.
//! * [`task`]: what is learned.
//! * [`advice`]: what would make a run faster, from a profile of it.
//! * [`run`]: what is built from it. [`Plan`](run::Plan) checks it, [`Session`](run::Session)
//!   trains, [`Trained`](run::Trained) evaluates and predicts.
//! * [`nnunet`]: prediction by trained models of nnU-Net v2.
//! * [`bundle`]: MONAI bundles.
//! * [`store`]: a local store of trained models.
//!
//! Nothing here prints. The crate reports by errors ([`RecipeError`]) and notices ([`notice`]).

#![forbid(unsafe_code)]

pub mod advice;
pub mod bundle;
mod error;
pub mod export;
pub mod nnunet;
pub mod notice;
pub mod recipe;
pub mod run;
pub mod store;
pub mod task;
pub mod text;

pub use error::{At, Context, Outcome, RecipeError};
