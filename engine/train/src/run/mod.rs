//! The folder of a run, and the lock that limits it to one process.

pub(crate) mod folder;
pub(crate) mod lock;
