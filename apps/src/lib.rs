//! The bundled recipes and the program `hearth`.
//!
//! An app is a recipe (`recipes/*.toml`), a file that names it ([`spleen`], [`hippocampus`]), and nothing else: the
//! command line reads the recipe, builds the pipeline, the network and the trainer from it, and runs them.
//!
//! * [`cli`] and [`commands`]: one file for each command.
//! * [`recipe`]: the recipe's schema, its text with positions, `--set`.
//! * [`run`]: a run's folder, and how a trainer is put together from a recipe.
//! * [`picture`]: slices with outlines as a PNG.

pub mod cli;
pub mod commands;
pub mod error;
pub mod hippocampus;
pub mod picture;
pub mod recipe;
pub mod run;
mod rustdoc;
pub mod spleen;
pub mod table;
pub mod terminal;

pub use error::{Failure, Outcome};
