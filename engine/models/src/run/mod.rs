//! Runs of this program: their networks, and what they predict.

pub mod generate;
pub mod open;
pub mod regions;
pub mod segment;
pub mod trained;
