//! The loop over cases of every model.

pub mod overlap;
