//! Recipes: from a TOML file to a trainer, an evaluator and a predictor.
//!
//! * [`recipe`]: what a recipe can say, its text with positions, `--set`, the bundled ones.
//! * [`task`]: what is learned.
//! * [`run`]: what is made of it. [`Plan`](run::Plan) checks it, [`Session`](run::Session) trains,
//!   [`Trained`](run::Trained) evaluates and predicts.
//!
//! Nothing here prints. What is to be said is an error ([`RecipeError`]) or a notice ([`notice`]).

mod error;
pub mod notice;
pub mod recipe;
pub mod run;
pub mod task;
pub mod text;

pub use error::{At, Context, Outcome, RecipeError};
