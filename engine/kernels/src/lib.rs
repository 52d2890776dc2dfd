//! hearth-kernels

pub mod counter_rng;
