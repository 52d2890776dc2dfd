//! tmp
pub mod error;
pub mod hippocampus;
pub mod picture;
pub mod recipe;
pub mod run;
pub mod spleen;
pub mod terminal;
pub use error::{Failure, Outcome};
