//! The memory of a run, estimated before it is used.

pub mod caches;
pub mod check;
pub mod dataset;
pub mod footprint;
pub mod synthetic;
