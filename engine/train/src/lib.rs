//! Trains and evaluates.

pub mod checkpoint;
pub mod device;
