//! The folder of a run, and the lock that keeps it one process's.

pub(crate) mod folder;
pub(crate) mod lock;
