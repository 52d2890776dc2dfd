//! The communicator that a process was started for: [`connect`].

use std::time::Duration;

use crate::{Communicator, MpiCommunicator, MpiError, Placement, threads};

/// The ranks that a launcher started, over MPI; without a launcher, or where it started one process,
/// a communicator of one rank that needs no library. `deadline` is how long the others may take to
/// start.
///
/// # Errors
/// Where a launcher started several ranks, and no MPI library is found, none that was found connects
/// them, or one of them does not start in time.
pub fn connect(deadline: Duration) -> Result<Box<dyn Communicator>, MpiError> {
    match Placement::from_environment()? {
        Some(placement) if placement.world > 1 => Ok(Box::new(MpiCommunicator::open(Some(&placement), deadline)?)),
        _ => Ok(Box::new(threads::alone())),
    }
}
