//! Sums for few output channels: the lanes of a register are neighbours of a row.

mod arrange;
mod outputs;
pub mod tile;
mod weights;

pub use outputs::{forward, input_gradient};
pub use weights::weight_gradient;
