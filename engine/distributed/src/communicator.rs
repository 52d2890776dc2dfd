//! The communication between ranks: [`Communicator`].

use std::sync::Arc;

use crate::wire::values_of;
use crate::{AllReduce, At, CommError, OnCards, Operation, Pending, Received, Waits};

/// The ranks of one run, from the view of one of them.
///
/// All ranks start the same operations in the same order. Each operation has a deadline, after which
/// it fails and names the ranks that have not arrived. After an error, every later operation of the
/// communicator fails.
pub trait Communicator: Send + Sync {
    /// This rank, from 0.
    fn rank(&self) -> usize;

    /// The host of each rank.
    fn hosts(&self) -> &[Arc<str>];

    /// Starts an operation, which proceeds in the background.
    fn start(&self, operation: Operation, at: &At) -> Pending<Received>;

    /// Reports to the other ranks that this one cannot continue, and why: operations that wait for
    /// it fail with [`Cause::PeerFault`](crate::Cause::PeerFault). With MPI this ends all processes
    /// and does not return; `code` is their exit code.
    fn abort(&self, code: i32, why: &str);

    /// Ends the communication when all ranks have arrived. A communicator that is dropped without
    /// it reports to the other ranks that this one has left.
    ///
    /// # Errors
    /// As [`Pending::wait`].
    fn finish(&self, at: &At) -> Result<(), CommError>;

    /// The time that this rank has waited, by phase.
    fn waits(&self) -> Waits;

    /// The communicator over the ranks' GPUs, if there is one: it sums values that are on a GPU in
    /// place.
    fn on_cards(&self) -> Option<&OnCards> {
        None
    }

    /// The number of ranks.
    fn world(&self) -> usize {
        self.hosts().len()
    }

    /// The host of this rank.
    fn host(&self) -> &Arc<str> {
        &self.hosts()[self.rank()]
    }

    /// The number of lower ranks on this host; selects this rank's GPU.
    fn local_rank(&self) -> usize {
        self.hosts()[..self.rank()].iter().filter(|host| *host == self.host()).count()
    }

    /// The number of ranks on this host.
    fn local_world(&self) -> usize {
        self.hosts().iter().filter(|host| *host == self.host()).count()
    }

    /// Starts the sum of `values` over the ranks.
    fn start_all_reduce(&self, values: Vec<f32>, how: AllReduce, at: &At) -> Pending<Vec<f32>> {
        self.start(Operation::AllReduce { values, how }, at).map(Received::into_values)
    }

    /// The sum of `values` over the ranks.
    ///
    /// # Errors
    /// As [`Pending::wait`].
    fn all_reduce(&self, values: Vec<f32>, how: AllReduce, at: &At) -> Result<Vec<f32>, CommError> {
        self.start_all_reduce(values, how, at).wait()
    }

    /// The sums of f64 values, added in the order of ranks: the same to the last bit on every rank.
    /// For metrics and counts, which are few: each rank receives the values of all.
    ///
    /// # Errors
    /// As [`Pending::wait`], and if a rank gave another number of values.
    fn sum(&self, values: &[f64], at: &At) -> Result<Vec<f64>, CommError> {
        let parts = self.all_gather(bytemuck::cast_slice(values).to_vec(), at)?;
        let mut sums = vec![0.0; values.len()];
        for (rank, part) in parts.iter().enumerate() {
            let part: Vec<f64> = values_of(part);
            if part.len() != values.len() {
                let theirs = format!("a sum of {} values instead of {}", part.len(), values.len());
                let cause = crate::Cause::Mismatch { rank, host: self.hosts()[rank].clone(), theirs };
                return Err(self.error("sum", at, cause));
            }
            sums.iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
        }
        Ok(sums)
    }

    /// The root's bytes, on every rank. Other ranks' `bytes` are ignored.
    ///
    /// # Errors
    /// As [`Pending::wait`], and if there is no rank `root`.
    fn broadcast(&self, bytes: Vec<u8>, root: usize, at: &At) -> Result<Vec<u8>, CommError> {
        self.start(Operation::Broadcast { bytes, root }, at).map(Received::into_bytes).wait()
    }

    /// The root's values, on every rank. Other ranks' `values` are ignored.
    ///
    /// # Errors
    /// As [`Communicator::broadcast`].
    fn broadcast_f32(&self, values: &[f32], root: usize, at: &At) -> Result<Vec<f32>, CommError> {
        Ok(values_of(&self.broadcast(bytemuck::cast_slice(values).to_vec(), root, at)?))
    }

    /// The bytes of each rank, in the order of ranks, on `root`; `None` elsewhere. Lengths may
    /// differ.
    ///
    /// # Errors
    /// As [`Pending::wait`], and if there is no rank `root`, or the parts have 2 GiB or more in
    /// total.
    fn gather(&self, bytes: Vec<u8>, root: usize, at: &At) -> Result<Option<Vec<Vec<u8>>>, CommError> {
        self.start(Operation::Gather { bytes, root }, at).map(Received::into_parts).wait()
    }

    /// The bytes of each rank, in the order of ranks, on every rank. Lengths may differ.
    ///
    /// # Errors
    /// As [`Pending::wait`], and if the parts have 2 GiB or more in total.
    fn all_gather(&self, bytes: Vec<u8>, at: &At) -> Result<Vec<Vec<u8>>, CommError> {
        self.start(Operation::AllGather { bytes }, at).map(|received| received.into_parts().unwrap_or_default()).wait()
    }

    /// Waits until all ranks have arrived.
    ///
    /// # Errors
    /// As [`Pending::wait`].
    fn barrier(&self, at: &At) -> Result<(), CommError> {
        self.start(Operation::Barrier, at).map(|_| ()).wait()
    }

    /// Creates an error of this rank.
    fn error(&self, operation: &'static str, at: &At, cause: crate::Cause) -> CommError {
        CommError {
            rank: self.rank(),
            world: self.world(),
            host: self.host().clone(),
            phase: at.phase.clone(),
            step: at.step,
            operation,
            cause: Box::new(cause),
        }
    }
}
