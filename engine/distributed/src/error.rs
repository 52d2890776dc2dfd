//! The error of an operation between ranks: [`CommError`].

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// An operation that failed on this rank.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("rank {rank} of {world} on {host}: {operation} of phase {phase}, step {step}: {cause}")]
pub struct CommError {
    /// The rank that reports the error.
    pub rank: usize,
    /// The number of ranks.
    pub world: usize,
    /// The rank's host.
    pub host: Arc<str>,
    /// The phase of the operation.
    pub phase: Cow<'static, str>,
    /// The step of the operation.
    pub step: u64,
    /// The name of the operation: `all-reduce`, `barrier`, ...
    pub operation: &'static str,
    /// The cause.
    pub cause: Box<Cause>,
}

/// The cause of a failed operation.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// Not all ranks arrived in time.
    #[error("not finished after {} s{}", .waited.as_secs_f64(), Peers(.peers))]
    Deadline {
        /// The deadline.
        waited: Duration,
        /// The states of the other ranks.
        peers: Vec<Peer>,
    },
    /// Another rank reported that it cannot continue, panicked or left.
    #[error("rank {rank} on {host} reported a fault (code {code}): {why}")]
    PeerFault {
        /// The rank.
        rank: usize,
        /// The rank's host.
        host: Arc<str>,
        /// The exit code of the report.
        code: i32,
        /// The reason.
        why: String,
    },
    /// The connection to another rank has ended without a report.
    #[error("rank {rank} on {host} is lost: {why}")]
    Lost {
        /// The rank.
        rank: usize,
        /// The rank's host.
        host: Arc<str>,
        /// What the system reports.
        why: String,
    },
    /// Another rank started another operation at this point.
    #[error("rank {rank} on {host} started another operation here: {theirs}")]
    Mismatch {
        /// The other rank.
        rank: usize,
        /// The rank's host.
        host: Arc<str>,
        /// The operation that it started.
        theirs: String,
    },
    /// There is no such rank.
    #[error("there is no rank {root}")]
    NoSuchRank {
        /// The requested root.
        root: usize,
    },
    /// More bytes than one operation can carry.
    #[error("{bytes} bytes are more than the {limit} that one operation can carry")]
    TooLarge {
        /// The bytes of all ranks together.
        bytes: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// A function of a library that carries the data failed.
    #[error("{function} failed with code {code}: {text}")]
    Call {
        /// The function.
        function: &'static str,
        /// The returned code.
        code: i32,
        /// The library's text for the code.
        text: String,
    },
    /// The library found an error in an operation in progress, such as a lost connection.
    #[error("{library} reports an error of work that was under way, code {code}: {text}")]
    Asynchronous {
        /// `NCCL` or `RCCL`.
        library: &'static str,
        /// The code.
        code: i32,
        /// The library's text for the code.
        text: String,
    },
    /// A call of the library does not return.
    #[error("the {library} library does not return from a call after {} s", .waited.as_secs_f64())]
    Stuck {
        /// `MPI`, `NCCL`, `RCCL`, or the thread of `TCP`.
        library: &'static str,
        /// The time since the start of the operation.
        waited: Duration,
    },
    /// An earlier operation of this communicator failed.
    #[error("an earlier operation failed: {0}")]
    Earlier(CommError),
    /// The communicator was finished before, or the thread that owns its library has ended.
    #[error("the communicator has ended")]
    Finished,
}

/// The state of another rank when a deadline has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The other rank.
    pub rank: usize,
    /// The rank's host.
    pub host: Arc<str>,
    /// The rank's state.
    pub state: PeerState,
}

/// The state of another rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// It started the operation.
    Arrived,
    /// It is alive, and has not started the operation.
    Behind {
        /// The last operation that it started; empty if none.
        last: String,
    },
    /// It does not respond: stopped, dead, or cut off.
    Silent,
}

/// Formats the states of peers for a message, the likely cause first.
struct Peers<'a>(&'a [Peer]);

impl fmt::Display for Peers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Peer { rank, host, .. } in self.0.iter().filter(|peer| peer.state == PeerState::Silent) {
            write!(f, "; rank {rank} on {host} does not respond")?;
        }
        for Peer { rank, host, state } in self.0 {
            match state {
                PeerState::Behind { last } if last.is_empty() => {
                    write!(f, "; rank {rank} on {host} has not arrived; it has started no operation yet")?;
                }
                PeerState::Behind { last } => {
                    write!(f, "; rank {rank} on {host} has not arrived; its last operation is {last}")?;
                }
                PeerState::Arrived | PeerState::Silent => {}
            }
        }
        let arrived: Vec<String> =
            self.0.iter().filter(|peer| peer.state == PeerState::Arrived).map(|peer| peer.rank.to_string()).collect();
        match arrived.as_slice() {
            [] => Ok(()),
            [one] => write!(f, "; rank {one} has arrived"),
            many => write!(f, "; ranks {} have arrived", many.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_rank_host_phase_step_and_who_is_missing() {
        let peer = |rank, state| Peer { rank, host: "node-b".into(), state };
        let peers = vec![
            peer(0, PeerState::Arrived),
            peer(1, PeerState::Behind { last: "barrier of phase validation, step 3".to_owned() }),
            peer(3, PeerState::Silent),
        ];
        let error = CommError {
            rank: 2,
            world: 4,
            host: "node-a".into(),
            phase: "gradients".into(),
            step: 17,
            operation: "all-reduce",
            cause: Box::new(Cause::Deadline { waited: Duration::from_millis(1500), peers }),
        };
        assert_eq!(
            error.to_string(),
            "rank 2 of 4 on node-a: all-reduce of phase gradients, step 17: not finished after 1.5 s; rank 3 on node-b \
             does not respond; rank 1 on node-b has not arrived; its last operation is barrier of phase validation, \
             step 3; rank 0 has arrived"
        );
    }
}
