//! The demos of the apps, each in the folder of its app.
//!
//! An app's folder holds everything specific to it: recipes, page, demo. [`crate::commands::demo`]
//! holds what the demos share, and runs them.

#[path = "../brats/demo.rs"]
pub mod brats;
#[path = "../ensemble/demo.rs"]
pub mod ensemble;
#[path = "../gan/demo.rs"]
pub mod gan;
#[path = "../lung/demo.rs"]
pub mod lung;
#[path = "../pathology/demo.rs"]
pub mod pathology;
#[path = "../spleen/demo.rs"]
pub mod spleen;
