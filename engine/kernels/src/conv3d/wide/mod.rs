//! Sums for many output channels, which are the lanes of a register.
//!
//! A task packs a block of the source that fits the second-level cache ([`pack`]), and walks through rows of outputs
//! ([`plan`]) with the inner loops ([`tile`]). Every output is one sum in one order, and partial sums of weight gradients
//! are split by the shape alone: results do not depend on the number of threads.

mod outputs;
mod pack;
mod plan;
mod shared;
pub mod tile;
mod weights;

pub use outputs::{Weight, outputs};
pub use plan::Plan;
pub use weights::weight_gradient;
