//! The communicator of this process: [`connect`].

use std::time::Duration;

use crate::{Communicator, MpiCommunicator, MpiError, Placement, threads};

/// Connects the ranks that a launcher started, over MPI. Without a launcher, or with one process,
/// returns a communicator of one rank, which needs no library. `deadline` limits the wait for the
/// other ranks to start.
///
/// # Errors
/// If a launcher started several ranks, and no MPI library is found, no library that was found
/// connects them, or one of them does not start in time.
pub fn connect(deadline: Duration) -> Result<Box<dyn Communicator>, MpiError> {
    match Placement::from_environment()? {
        Some(placement) if placement.world > 1 => Ok(Box::new(MpiCommunicator::open(Some(&placement), deadline)?)),
        _ => Ok(Box::new(threads::alone())),
    }
}
