//! Distributed training: one run on several ranks.
//!
//! A **rank** is one of the processes (or threads) that train the same network. Each has the same
//! weights and a part of the data. The sums of their gradients are those that one process with all
//! the data would compute.
//!
//! - [`Communicator`] exchanges data between ranks: all-reduce, broadcast, gather, barrier. It is
//!   implemented by [`threads`] of one process, by [`mpi`], whose library is found at run time, and by
//!   [`tcp`], which needs no library.
//! - [`nccl`] computes the sums on the ranks' GPUs, by NCCL or RCCL, on top of one of these.
//! - [`Placement`] is the rank that a launcher assigned to this process; [`connect`] opens the
//!   communicator for it.
//! - [`Buckets`] group gradients for the all-reduce in the order in which the backward pass yields
//!   them.
//! - [`agree`] finds ranks that have another recipe, version, data or weights.
//! - [`Share`] is the list of cases that a rank evaluates; each case is evaluated once. (The cases
//!   a rank trains on come from `hearth_data`'s `partition_dataset`.)
//! - [`Waits`] record the time that each rank waited for others.
//!
//! # How ranks communicate
//!
//! - All ranks start the same operations in the same order. Each operation has a deadline and an
//!   error that names rank, host, phase and step, and the ranks that have not arrived.
//! - **MPI is opened at run time.** Open MPI, MPICH and the standard interface of MPI 5 have
//!   different binary interfaces; one table of functions over two kinds of handles covers all
//!   three.
//! - **One thread owns MPI** (`mpi/worker.rs`). It starts non-blocking calls and tests them, so
//!   that buckets are reduced while the training thread computes, and a rank that has stopped is
//!   noticed. Buffers belong to a request until MPI has completed it; after an error they are
//!   leaked.
//! - **Operations alternate between four communicators**, so that one that consists of several
//!   calls cannot overtake another.
//! - **Sums by rank** (`Order::Rank`, and always with bf16): each rank receives its slice of all
//!   ranks' values, adds them in f64 by rank, and sends the sums back. The result is the same on
//!   every rank and with every library. `Order::Any` leaves the order to the library.
//! - **Sums on GPUs** (`nccl/`) wrap another communicator, which carries everything else. Each sum
//!   is announced over the communicator beneath and queued once all ranks have announced the same
//!   one, so that no GPU waits for a missing rank. CUDA and HIP share one table of functions and
//!   differ in `driver.rs` only.
//! - **Messages next to operations:** a rank that ends reports why, and at a deadline each rank is
//!   asked for its position. A rank answers even while its training thread is busy.
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
mod job;
pub mod mpi;
pub mod nccl;
mod operation;
mod pending;
mod placement;
mod share;
pub mod tcp;
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
pub use tcp::{TcpCommunicator, TcpError};
pub use threads::ThreadCommunicator;
pub use waits::{PhaseWaits, Straggler, Waits, gather_waits, straggler};
pub use wire::Wire;
