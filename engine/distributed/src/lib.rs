//! Distributed training: one run on several ranks.
//!
//! A **rank** is one of the processes (or threads) that train the same network. Each has the same
//! weights and a part of the data. The sums of their gradients are those that one process with all
//! the data would compute.
//!
//! - [`Communicator`] exchanges data between ranks: all-reduce, broadcast, gather, barrier. It is
//!   implemented by [`threads`] of one process and by [`mpi`], whose library is found at run time.
//! - [`nccl`] computes the sums on the ranks' GPUs, by NCCL or RCCL, on top of one of the two.
//! - [`Placement`] is the rank that a launcher assigned to this process; [`connect`] opens the
//!   communicator for it.
//! - [`Buckets`] group gradients for the all-reduce in the order in which the backward pass yields
//!   them.
//! - [`agree`] finds ranks that have another recipe, version, data or weights.
//! - [`Share`] is the list of cases that a rank evaluates; each case is evaluated once. (The cases
//!   a rank trains on come from `hearth_data`'s `partition_dataset`.)
//! - [`Waits`] record the time that each rank waited for others.
//!
//! ```
//! use hearth_distributed::{AllReduce, At, Communicator, threads};
//!
//! let sums: Vec<Vec<f32>> = threads::run(2, |ranks| {
//!     let own = vec![ranks.rank() as f32 + 1.0; 3];
//!     let pending = ranks.start_all_reduce(own, AllReduce::default(), &At::new("gradients", 7));
//!     // ... compute ...
//!     pending.wait()
//! })
//! .into_iter()
//! .collect::<Result<_, _>>()?;
//! assert_eq!(sums, [vec![3.0; 3], vec![3.0; 3]]);
//! # Ok::<(), hearth_distributed::CommError>(())
//! ```

mod agree;
mod at;
mod bucket;
mod communicator;
mod connect;
mod error;
pub mod mpi;
pub mod nccl;
mod operation;
mod pending;
mod placement;
mod share;
pub mod threads;
mod waits;
mod wire;

pub use agree::{AgreeError, Facts, agree};
pub use at::{At, DEADLINE};
pub use bucket::{BUCKET_BYTES, Bucket, Buckets, Filling, FillingError, Released};
pub use communicator::Communicator;
pub use connect::connect;
pub use error::{Cause, CommError, Peer, PeerState};
pub use mpi::{MpiCommunicator, MpiError};
pub use nccl::{NcclError, OnCards};
pub use operation::{AllReduce, Operation, Order, Received};
pub use pending::Pending;
pub use placement::{Launcher, Placement, PlacementError, variables};
pub use share::Share;
pub use threads::ThreadCommunicator;
pub use waits::{PhaseWaits, Straggler, Waits, gather_waits, straggler};
pub use wire::Wire;
