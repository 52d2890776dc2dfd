//! Recipes: from a TOML file to checked values.
//!
//! * [`recipe`]: the schema, its text with positions, `--set`, the bundled recipes.
//! * [`task`]: the kinds of tasks that are learned.
//! * [`nnunet`]: nnU-Net's raw data sets, steps and training recipes.
//! * [`mod@notice`]: messages that a run reports.
//!
//! Nothing here prints. The crate reports through errors ([`RecipeError`]) and notices
//! ([`mod@notice`]).

#![forbid(unsafe_code)]

mod error;
pub mod nnunet;
pub mod notice;
pub mod recipe;
pub mod task;
pub mod text;

#[doc(hidden)]
pub use tracing;

pub use error::{At, Context, Outcome, RecipeError};
