//! Ranks as threads of one process: [`ThreadCommunicator`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::pending::{Answer, Late};
use crate::waits::Ledger;
use crate::wire::{rounded, sum_in_order};
use crate::{At, Cause, CommError, Communicator, Operation, Peer, PeerState, Pending, Received, Waits, Wire};

/// The host of all ranks of a group.
const HOST: &str = "this process";

/// Communicators of `world` ranks, one for each thread.
pub fn group(world: usize) -> Vec<ThreadCommunicator> {
    let group = Arc::new(Group::new(world));
    (0..world).map(|rank| ThreadCommunicator::new(group.clone(), rank)).collect()
}

/// The communicator of a run with one rank.
pub fn alone() -> ThreadCommunicator {
    ThreadCommunicator::new(Arc::new(Group::new(1)), 0)
}

/// Runs `work` on `world` threads, one for each rank, and returns the results in the order of
/// ranks.
///
/// # Panics
/// If a rank panics, after all have ended.
pub fn run<T: Send>(world: usize, work: impl Fn(ThreadCommunicator) -> T + Sync) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = group(world).into_iter().map(|ranks| scope.spawn(move || work(ranks))).collect();
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        results.into_iter().map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// One rank of a [`group`]. Sums are always added in the order of ranks.
#[derive(Debug)]
pub struct ThreadCommunicator {
    group: Arc<Group>,
    rank: usize,
    ledger: Arc<Ledger>,
    finished: AtomicBool,
}

#[derive(Debug)]
struct Group {
    hosts: Vec<Arc<str>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The operations that wait for ranks, by number.
    meetings: BTreeMap<u64, Vec<Option<Arrival>>>,
    seats: Vec<Seat>,
    /// The reason why all operations fail from now on.
    fault: Option<Cause>,
}

/// The operations that a rank has started.
#[derive(Clone, Debug, Default)]
struct Seat {
    count: u64,
    last: String,
}

/// A rank that has arrived at an operation.
#[derive(Debug)]
struct Arrival {
    operation: Operation,
    at: At,
    answer: Sender<Answer>,
}

impl Arrival {
    fn describe(&self) -> String {
        format!("{} of phase {}, step {}", self.operation.name(), self.at.phase, self.at.step)
    }
}

impl ThreadCommunicator {
    fn new(group: Arc<Group>, rank: usize) -> Self {
        ThreadCommunicator { group, rank, ledger: Arc::default(), finished: AtomicBool::new(false) }
    }
}

impl Group {
    fn new(world: usize) -> Self {
        let seats = vec![Seat::default(); world];
        let state = State { meetings: BTreeMap::new(), seats, fault: None };
        Group { hosts: vec![HOST.into(); world], state: Mutex::new(state) }
    }

    /// The state. It is consistent even if a rank panicked within an operation: it only holds what
    /// others wait for.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, rank: usize, operation: &'static str, at: &At, cause: Cause) -> CommError {
        let (world, host) = (self.hosts.len(), self.hosts[rank].clone());
        let (phase, step) = (at.phase.clone(), at.step);
        CommError { rank, world, host, phase, step, operation, cause: Box::new(cause) }
    }

    /// Fails all operations in progress and all later ones.
    fn fail(&self, state: &mut State, cause: &Cause) {
        for (_, arrivals) in std::mem::take(&mut state.meetings) {
            for (rank, arrival) in arrivals.into_iter().enumerate() {
                if let Some(Arrival { operation, at, answer }) = arrival {
                    // If a rank does not wait, its receiver is gone.
                    let _ = answer.send(Err(self.error(rank, operation.name(), &at, cause.clone())));
                }
            }
        }
        state.fault.get_or_insert_with(|| cause.clone());
    }

    fn fault(&self, rank: usize, code: i32, why: &str) {
        let cause = Cause::PeerFault { rank, host: self.hosts[rank].clone(), code, why: why.to_owned() };
        self.fail(&mut self.state(), &cause);
    }

    /// The reason why a rank's operation is late when its deadline has passed; ends the operation
    /// for the others. If all ranks have arrived, the result is being computed.
    fn late(&self, rank: usize, number: u64, operation: &'static str, at: &At) -> Late {
        let mut state = self.state();
        let Some(meeting) = state.meetings.get_mut(&number) else {
            return Late::Soon(self.error(rank, operation, at, Cause::Finished));
        };
        // This rank's own answer is the error below.
        meeting[rank] = None;
        let peers = state.seats.iter().enumerate().filter(|(peer, _)| *peer != rank).map(|(peer, seat)| {
            let arrived = seat.count > number;
            let here = if arrived { PeerState::Arrived } else { PeerState::Behind { last: seat.last.clone() } };
            Peer { rank: peer, host: self.hosts[peer].clone(), state: here }
        });
        let cause = Cause::Deadline { waited: at.deadline, peers: peers.collect() };
        let error = self.error(rank, operation, at, cause);
        let reported = Cause::PeerFault { rank, host: self.hosts[rank].clone(), code: 1, why: error.to_string() };
        self.fail(&mut state, &reported);
        Late::Never(error)
    }
}

/// The difference between two arrivals, if they are not the same operation.
fn mismatch(first: &Arrival, other: &Arrival) -> Option<String> {
    if other.describe() != first.describe() || other.operation.root() != first.operation.root() {
        return Some(match other.operation.root() {
            Some(root) => format!("{}, root {root}", other.describe()),
            None => other.describe(),
        });
    }
    match (&first.operation, &other.operation) {
        (Operation::AllReduce { values: a, how: x }, Operation::AllReduce { values: b, how: y })
            if a.len() != b.len() || x != y =>
        {
            Some(format!("{}, {} values, {:?}, order {:?}", other.describe(), b.len(), y.wire, y.order))
        }
        _ => None,
    }
}

/// The results of an operation, one for each rank.
fn meet(operations: Vec<Operation>) -> Vec<Received> {
    let world = operations.len();
    match operations.first() {
        Some(Operation::AllReduce { how, .. }) => {
            let wire = how.wire;
            let parts: Vec<Vec<f32>> = operations
                .into_iter()
                .map(|operation| match operation {
                    Operation::AllReduce { values, .. } => rounded(values, wire),
                    _ => Vec::new(),
                })
                .collect();
            let parts: Vec<&[f32]> = parts.iter().map(Vec::as_slice).collect();
            let sum = sum_in_order(&parts);
            vec![Received::Values(if wire == Wire::F32 { sum } else { rounded(sum, wire) }); world]
        }
        Some(Operation::Barrier) | None => vec![Received::Nothing; world],
        Some(first) => {
            let (root, broadcast) = (first.root(), matches!(first, Operation::Broadcast { .. }));
            let mut parts: Vec<Vec<u8>> = operations
                .into_iter()
                .map(|operation| match operation {
                    Operation::Broadcast { bytes, .. }
                    | Operation::Gather { bytes, .. }
                    | Operation::AllGather { bytes } => bytes,
                    Operation::AllReduce { .. } | Operation::Barrier => Vec::new(),
                })
                .collect();
            match root {
                Some(root) if broadcast => vec![Received::Bytes(parts.swap_remove(root)); world],
                Some(root) => {
                    let mut received = vec![Received::Nothing; world];
                    received[root] = Received::Parts(parts);
                    received
                }
                None => vec![Received::Parts(parts); world],
            }
        }
    }
}

impl Communicator for ThreadCommunicator {
    fn rank(&self) -> usize {
        self.rank
    }

    fn hosts(&self) -> &[Arc<str>] {
        &self.group.hosts
    }

    fn start(&self, operation: Operation, at: &At) -> Pending<Received> {
        let (group, rank, name) = (&self.group, self.rank, operation.name());
        let (answer, receiver) = channel();
        let bytes = operation.bytes();
        let mut state = group.state();
        let number = state.seats[rank].count;
        let refused = match (&state.fault, operation.root()) {
            (Some(fault), _) => Some(fault.clone()),
            (None, Some(root)) if root >= self.world() => Some(Cause::NoSuchRank { root }),
            (None, _) if self.finished.load(Ordering::Relaxed) => Some(Cause::Finished),
            _ => None,
        };
        if let Some(cause) = refused {
            // The receiver exists.
            let _ = answer.send(Err(group.error(rank, name, at, cause)));
        } else {
            let arrival = Arrival { operation, at: at.clone(), answer };
            state.seats[rank] = Seat { count: number + 1, last: arrival.describe() };
            let world = self.world();
            let meeting = state.meetings.entry(number).or_insert_with(|| (0..world).map(|_| None).collect());
            // Those that arrived earlier agree with each other.
            let differs = meeting.iter().flatten().next().and_then(|first| mismatch(first, &arrival));
            meeting[rank] = Some(arrival);
            if let Some(theirs) = differs {
                let cause = Cause::Mismatch { rank, host: group.hosts[rank].clone(), theirs };
                group.fail(&mut state, &cause);
            } else if meeting.iter().all(Option::is_some) {
                let arrivals = state.meetings.remove(&number).unwrap_or_default();
                // Other ranks start operations while this one computes the result.
                drop(state);
                let (operations, answers): (Vec<_>, Vec<_>) =
                    arrivals.into_iter().flatten().map(|arrival| (arrival.operation, arrival.answer)).unzip();
                for (answer, received) in answers.into_iter().zip(meet(operations)) {
                    // A rank that dropped its `Pending` needs no result.
                    let _ = answer.send(Ok(received));
                }
            }
        }
        let (group, own) = (self.group.clone(), at.clone());
        let late = move || group.late(rank, number, name, &own);
        Pending::new(receiver, at.deadline, late, (self.ledger.clone(), at, bytes))
    }

    fn abort(&self, code: i32, why: &str) {
        self.group.fault(self.rank, code, why);
    }

    fn finish(&self, at: &At) -> Result<(), CommError> {
        self.barrier(at)?;
        self.finished.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn waits(&self) -> Waits {
        self.ledger.waits()
    }
}

impl Drop for ThreadCommunicator {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.group.fault(self.rank, 101, "it panicked");
        } else if !self.finished.load(Ordering::Relaxed) && self.world() > 1 {
            self.group.fault(self.rank, 1, "it left before the run was finished");
        }
    }
}
