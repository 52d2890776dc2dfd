//! The thread that owns MPI: [`Worker`].
//!
//! All calls of MPI are made here, so `MPI_THREAD_FUNNELED` is sufficient, and gradients are
//! reduced while the training thread computes. Operations are distributed over a few lanes in turn,
//! each with a separate communicator: an operation of several calls does not overtake another one
//! on its lane, and the order of calls on each communicator is the same on all ranks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::abi::Handle;
use super::calls::Mpi;
use super::control::{Control, Fault, Started};
use super::transfer::{Place, Step, Transfer};
use crate::job::{self, Job, Ticket};
use crate::{Cause, CommError, Operation, Peer};

/// The number of operations in progress at once.
pub(super) const LANES: usize = 4;
/// The time that other ranks have to answer a question for their state.
pub(super) const ANSWERS: Duration = Duration::from_secs(1);
/// The time that the other ranks have to end by themselves before an abort ends them.
const GRACE: Duration = Duration::from_millis(500);
/// The interval at which messages are received.
const SERVE: Duration = Duration::from_millis(2);
/// The same when no operation is in progress.
const IDLE: Duration = Duration::from_millis(10);
/// The time for which calls are tested without a pause after the last progress: about the time of
/// transferring a bucket through memory. Later the CPU is left to the backward pass.
const EAGER: Duration = Duration::from_millis(1);
/// The pause between tests after that time.
const PAUSE: Duration = Duration::from_micros(200);

/// A command to the worker.
pub(super) enum Command {
    /// Starts an operation.
    Start(Job),
    /// Ends MPI.
    Finalize(Sender<Result<(), Cause>>),
    /// Reports that this rank leaves.
    Leave { code: i32, why: String, done: Sender<()> },
    /// Ends all processes.
    Abort { code: i32, why: String },
}

struct Lane<H> {
    comm: H,
    queue: VecDeque<(Ticket, Operation)>,
    active: Option<(Ticket, Transfer<H>)>,
}

pub(super) struct Worker<H> {
    mpi: Mpi<H>,
    place: Place,
    hosts: Vec<Arc<str>>,
    lanes: Vec<Lane<H>>,
    control: Control<H>,
    started: Started,
    /// The cause that later operations report after an error.
    failed: Option<Cause>,
    served: Instant,
    /// The time at which the last call was made or completed.
    moved: Instant,
}

impl<H: Handle> Worker<H> {
    pub(super) fn new(mpi: Mpi<H>, place: Place, hosts: Vec<Arc<str>>, lanes: Vec<H>, control: H) -> Self {
        let lanes =
            lanes.into_iter().map(|comm| Lane { comm, queue: VecDeque::new(), active: None }).collect::<Vec<_>>();
        Worker {
            mpi,
            place,
            hosts,
            lanes,
            control: Control::new(control, place.0, place.1),
            started: Started::default(),
            failed: None,
            served: Instant::now(),
            moved: Instant::now(),
        }
    }

    /// Works until the communicator is finished or dropped.
    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        loop {
            let busy = self.lanes.iter().any(|lane| lane.active.is_some() || !lane.queue.is_empty());
            let command = if busy {
                commands.try_recv().map_err(|error| error == std::sync::mpsc::TryRecvError::Disconnected)
            } else {
                commands.recv_timeout(IDLE).map_err(|error| error == RecvTimeoutError::Disconnected)
            };
            match command {
                Ok(Command::Start(job)) => self.take(job),
                Ok(Command::Finalize(done)) => {
                    // If the receiver is gone, the caller no longer waits.
                    let _ = done.send(self.mpi.finalize());
                    return;
                }
                Ok(Command::Leave { code, why, done }) => {
                    let fault = self.fault(code, why);
                    self.control.report(&self.mpi, &fault, ANSWERS);
                    let _ = done.send(());
                    return;
                }
                Ok(Command::Abort { code, why }) => {
                    let fault = self.fault(code, why);
                    self.control.report(&self.mpi, &fault, ANSWERS);
                    std::thread::sleep(GRACE);
                    self.mpi.abort(code);
                    return;
                }
                // The communicator was dropped.
                Err(true) => return,
                Err(false) => {}
            }
            if let Err(cause) = self.serve(busy) {
                self.fail_all(cause, None);
            }
            self.proceed();
            self.check_deadlines();
            if busy {
                self.pause();
            }
        }
    }

    fn error(&self, ticket: &Ticket, cause: Cause) -> CommError {
        ticket.error(self.place, &self.hosts, cause)
    }

    fn take(&mut self, Job { operation, at, started, answer }: Job) {
        self.moved = Instant::now();
        let ticket = Ticket { number: self.started.count, name: operation.name(), at, started, answer };
        let refused = match (&self.failed, operation.root()) {
            (Some(cause), _) => Some(cause.clone()),
            (None, Some(root)) if root >= self.place.1 => Some(Cause::NoSuchRank { root }),
            _ => None,
        };
        if let Some(cause) = refused {
            // A caller that dropped its `Pending` needs no answer, here and below.
            let _ = ticket.answer.send(Err(self.error(&ticket, cause)));
            return;
        }
        let last = format!("{} of phase {}, step {}", ticket.name, ticket.at.phase, ticket.at.step);
        self.started = Started { count: ticket.number + 1, last };
        let lane = (ticket.number % LANES as u64) as usize;
        self.lanes[lane].queue.push_back((ticket, operation));
    }

    /// Makes progress on each lane.
    fn proceed(&mut self) {
        for lane in 0..self.lanes.len() {
            loop {
                let Lane { comm, queue, active } = &mut self.lanes[lane];
                let (ticket, step) = match active.take() {
                    Some((ticket, transfer)) => (ticket, transfer.poll(&self.mpi, *comm, self.place)),
                    None => match queue.pop_front() {
                        Some((ticket, operation)) => {
                            (ticket, Transfer::begin(&self.mpi, *comm, self.place, operation).map(Step::Next))
                        }
                        None => break,
                    },
                };
                match step {
                    Ok(Step::Waits(transfer)) => {
                        self.lanes[lane].active = Some((ticket, transfer));
                        break;
                    }
                    Ok(Step::Next(transfer)) => {
                        self.moved = Instant::now();
                        self.lanes[lane].active = Some((ticket, transfer));
                    }
                    Ok(Step::Done(received)) => {
                        self.moved = Instant::now();
                        let _ = ticket.answer.send(Ok(received));
                    }
                    Err(cause) => {
                        self.fail_all(cause, Some(ticket));
                        return;
                    }
                }
            }
        }
    }

    /// Fails all operations in progress: `first` with the cause, the others as a consequence.
    /// Memory that MPI uses is leaked by its requests.
    fn fail_all(&mut self, cause: Cause, first: Option<Ticket>) {
        let mut tickets: Vec<Ticket> = first.into_iter().collect();
        for lane in &mut self.lanes {
            tickets.extend(lane.active.take().map(|(ticket, _)| ticket));
            tickets.extend(lane.queue.drain(..).map(|(ticket, _)| ticket));
        }
        tickets.sort_by_key(|ticket| ticket.number);
        let later = job::fail(tickets, cause, self.place, &self.hosts);
        self.failed.get_or_insert(later);
    }

    /// Receives messages at intervals.
    fn serve(&mut self, busy: bool) -> Result<(), Cause> {
        if busy && self.served.elapsed() < SERVE {
            return Ok(());
        }
        self.served = Instant::now();
        if let Some(fault) = self.control.serve(&self.mpi, &self.started)? {
            let cause = self.peer_fault(fault);
            self.fail_all(cause, None);
        }
        Ok(())
    }

    /// The fault to report to the other ranks when this one ends: the cause, if it is known.
    fn fault(&self, code: i32, why: String) -> Fault {
        match &self.failed {
            Some(Cause::PeerFault { rank, code, why, .. }) => Fault { rank: *rank, code: *code, why: why.clone() },
            Some(Cause::Earlier(error)) => Fault { rank: self.place.0, code, why: error.to_string() },
            _ => Fault { rank: self.place.0, code, why },
        }
    }

    fn peer_fault(&self, Fault { rank, code, why }: Fault) -> Cause {
        Cause::PeerFault { rank, host: self.hosts[rank].clone(), code, why }
    }

    /// Fails all operations if a deadline has passed, after asking the other ranks for their
    /// states.
    fn check_deadlines(&mut self) {
        let tickets = |lane: &Lane<H>| lane.active.as_ref().is_some_and(|(ticket, _)| ticket.is_late());
        let Some(lane) = self.lanes.iter().position(tickets) else { return };
        let Some((ticket, transfer)) = self.lanes[lane].active.take() else { return };
        // MPI still uses its memory.
        drop(transfer);
        let cause = match self.control.ask(&self.mpi, ticket.number, &self.started, ANSWERS) {
            Err(cause) => cause,
            Ok(Err(fault)) => self.peer_fault(fault),
            Ok(Ok(states)) => {
                let peer = |(rank, state)| Peer { rank, host: self.hosts[rank].clone(), state };
                Cause::Deadline { waited: ticket.at.deadline, peers: states.into_iter().map(peer).collect() }
            }
        };
        self.fail_all(cause, Some(ticket));
    }

    /// Yields the CPU to other threads.
    fn pause(&self) {
        if self.moved.elapsed() < EAGER {
            std::thread::yield_now();
        } else {
            std::thread::sleep(PAUSE);
        }
    }
}
