//! The demos of the apps, each in the folder of its app.
//!
//! An app's folder has all that is its own: recipes, page, demo. What demos share is in
//! [`crate::commands::demo`], which runs them.

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
