//! Training steps of the user's own: a closure in place of the default step, and further networks
//! that it uses.

pub(crate) mod averaged;
pub(crate) mod batch;
pub(crate) mod companion;
pub(crate) mod context;
pub(crate) mod fixed;
pub(crate) mod learned;
pub(crate) mod network;
pub(crate) mod step;
