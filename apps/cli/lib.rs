//! The bundled recipes and the program `hearth`.
//!
//! An app is a recipe of the crate `hearth-recipe`, which builds pipeline, network and trainer from it.
//! This crate is the user interface: commands, tables, pictures.
//!
//! * [`cli`] and [`commands`]: one file for each command.
//! * `demos`: the demos of the apps, in the folders of the apps.

#![forbid(unsafe_code)]

pub mod cli;
pub mod commands;
mod cores;
mod cudnn;
mod demos;
pub mod error;
pub mod escapes;
pub mod folders;
mod hangup;
pub mod hosts;
pub mod interrupt;
pub mod ranks;
mod repeated;
mod rustdoc;
pub mod sharing;
pub mod table;
pub mod terminal;
pub mod version;
pub mod warnings;

pub use error::{Failure, Outcome};
pub use hearth_models::picture;
pub use hearth_recipe::recipe;
pub use hearth_run as run;
