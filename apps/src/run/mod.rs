//! A run: how a trainer is put together from a recipe, and what becomes of it.

mod cases;
pub mod folders;
pub mod interrupt;
mod plan;
mod weights;

pub use cases::Cases;
pub use plan::Plan;
pub use weights::Trained;
