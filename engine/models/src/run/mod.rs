//! Runs of Hearth: their networks and predictions.

pub mod generate;
mod model;
pub mod open;
mod saliency;
pub mod segment;
pub mod trained;

pub use model::RunModel;
pub(crate) use open::recipe_of;
pub use trained::{Opening, Trained, accept_faults};
