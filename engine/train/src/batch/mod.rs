//! Batches: their source, and the tensors, numbers and texts of the current one.

pub(crate) mod facts;
pub(crate) mod feed;
pub(crate) mod loader;
pub(crate) mod step_error;
pub(crate) mod tensors;
