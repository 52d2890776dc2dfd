//! The thread that owns a rank's GPU and its communicator: [`Worker`].
//!
//! Operations are queued on the GPU in the order in which they were started, each after all ranks
//! have announced it over the base communicator (see `on_cards`). So no GPU waits for a missing
//! rank, and differing operations are noticed before they are queued.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hearth_machine::Awake;

use super::card::{Event, Sent};
use super::driver::Failed;
use super::nccl::Comm;
use super::plan::{Kind, Leg, Task, legs};
use super::staging::{CardValues, Staging};
use crate::pending::Answer;
use crate::wire::sum_in_order;
use crate::{At, Cause, CommError, Order, Peer, PeerState, Pending, Received, Wire};

/// The time that the GPU has to stop after the communicator was aborted.
pub(super) const STOPS: Duration = Duration::from_secs(1);
/// The interval at which the library is queried for errors.
const ASK: Duration = Duration::from_millis(2);
/// The longest sleep of a thread without work.
const IDLE: Duration = Duration::from_millis(50);
/// The time for which events are queried without a pause after the last progress. In between, the
/// CPU is yielded to other threads.
const EAGER: Duration = Duration::from_millis(20);
/// The pause after that time.
const PAUSE: Duration = Duration::from_micros(50);

/// A command to the worker.
pub(super) enum Command {
    Start(Box<Job>),
    /// Ends the communicator, with all ranks.
    Finish(Sender<Result<(), Cause>>),
    /// Ends the communicator of this rank alone.
    Leave(Sender<()>),
}

/// An operation that was started.
pub(super) struct Job {
    pub name: &'static str,
    pub work: Work,
    pub at: At,
    pub started: Awake,
    /// The announcement to the other ranks, and the announcement expected of them.
    pub announced: (Pending<Received>, String),
    pub answer: Sender<Answer>,
}

pub(super) enum Work {
    /// Host values.
    Host { values: Vec<f32>, wire: Wire, task: Task },
    /// Values on the GPU, which are ready when the event has happened.
    Card { values: CardValues, task: Task, ready: Sent },
}

/// The rest of a job in progress.
struct Active {
    number: u64,
    name: &'static str,
    at: At,
    started: Awake,
    answer: Sender<Answer>,
    /// The announcement, until all ranks have made it.
    announced: Option<(Pending<Received>, String)>,
    body: Body,
    /// The number of collectives that are queued on the GPU.
    flying: usize,
}

enum Body {
    Host {
        values: Vec<f32>,
        wire: Wire,
        /// The collectives to queue.
        legs: VecDeque<Leg>,
        /// The sums of this rank's slices, by chunk, until they are gathered.
        sums: BTreeMap<usize, Vec<f32>>,
    },
    Card {
        values: CardValues,
        task: Task,
        /// The event to wait for, until the collective is queued.
        ready: Option<Event>,
    },
}

impl Active {
    fn is_queued(&self) -> bool {
        match &self.body {
            Body::Host { legs, .. } => legs.is_empty(),
            Body::Card { ready, .. } => ready.is_none(),
        }
    }
}

/// A collective that is queued on the GPU.
struct Flight {
    job: u64,
    landing: Landing,
}

enum Landing {
    Slot(usize, Leg, Wire),
    Event(Event),
}

/// The reason why later operations fail, for [`OnCards`](super::OnCards).
pub(super) type Fault = Arc<Mutex<Option<Cause>>>;

pub(super) struct Worker {
    /// `None` after an error.
    comm: Option<Comm>,
    staging: Staging,
    library: &'static str,
    hosts: Vec<Arc<str>>,
    jobs: VecDeque<Active>,
    flights: VecDeque<Flight>,
    count: u64,
    fault: Fault,
    asked: Instant,
    /// The time at which the last collective was queued or ended.
    moved: Instant,
}

impl Worker {
    pub(super) fn new(comm: Comm, staging: Staging, library: &'static str, hosts: Vec<Arc<str>>, fault: Fault) -> Self {
        let (jobs, flights, now) = (VecDeque::new(), VecDeque::new(), Instant::now());
        Worker { comm: Some(comm), staging, library, hosts, jobs, flights, count: 0, fault, asked: now, moved: now }
    }

    /// The sum of one value of each rank, to check that the connection works. `None` if it does not
    /// arrive in time.
    ///
    /// # Errors
    /// If the driver or the library reports an error.
    pub(super) fn first_sum(&mut self, value: f32, deadline: Duration) -> Result<Option<f32>, Failed> {
        let (begin, leg) = (Awake::now(), Leg { kind: Kind::Sum, values: 0..1 });
        let (Some(comm), Some(slot)) = (&self.comm, self.staging.slot()) else { return Ok(None) };
        self.staging.launch(comm, slot, &leg, Wire::F32, &[value])?;
        while !self.staging.has_landed(slot)? {
            if let Some((code, text)) = comm.asynchronous_error()? {
                return Err(Failed { function: "ncclAllReduce", code, text });
            }
            if begin.elapsed() > deadline {
                return Ok(None);
            }
            std::thread::sleep(PAUSE);
        }
        Ok(self.staging.take(slot, &leg, Wire::F32).first().copied())
    }

    /// Works until the communicator is finished or dropped.
    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        let mut finish: Option<Sender<Result<(), Cause>>> = None;
        loop {
            let busy = !self.jobs.is_empty();
            if let (false, Some(done)) = (busy, &finish) {
                let ended = match (self.comm.take(), self.fault()) {
                    (Some(comm), None) => comm.destroy().map_err(Cause::from),
                    (_, fault) => Err(fault.unwrap_or(Cause::Finished)),
                };
                drop(self);
                // If the receiver is gone, the caller no longer waits; here and below.
                let _ = done.send(ended);
                return;
            }
            let command = if busy {
                commands.try_recv().map_err(|error| error == std::sync::mpsc::TryRecvError::Disconnected)
            } else {
                commands.recv_timeout(IDLE).map_err(|error| error == RecvTimeoutError::Disconnected)
            };
            match command {
                Ok(Command::Start(job)) => self.take(*job),
                Ok(Command::Finish(done)) => finish = Some(done),
                Ok(Command::Leave(done)) => {
                    self.stop();
                    drop(self);
                    let _ = done.send(());
                    return;
                }
                Err(true) => return self.stop(),
                Err(false) => {}
            }
            if let Err((cause, job)) = self.proceed() {
                self.fail_all(cause, job);
            }
            if !self.jobs.is_empty() {
                self.pause();
            }
        }
    }

    fn fault(&self) -> Option<Cause> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn error(&self, job: &Active, cause: Cause) -> CommError {
        let (rank, world) = self.staging.place();
        CommError {
            rank,
            world,
            host: self.hosts[rank].clone(),
            phase: job.at.phase.clone(),
            step: job.at.step,
            operation: job.name,
            cause: Box::new(cause),
        }
    }

    fn take(&mut self, Job { name, work, at, started, announced, answer }: Job) {
        self.moved = Instant::now();
        let body = match work {
            Work::Host { values, wire, task } => {
                let legs = legs(task, values.len(), self.staging.chunk(wire));
                Body::Host { values, wire, legs, sums: BTreeMap::new() }
            }
            Work::Card { values, task, ready } => {
                Body::Card { values, task, ready: Some(Event::receive(ready, self.staging.here())) }
            }
        };
        let announced = Some(announced);
        let job = Active { number: self.count, name, at, started, answer, announced, body, flying: 0 };
        if let Some(cause) = self.fault() {
            let _ = job.answer.send(Err(self.error(&job, cause)));
            return;
        }
        self.count += 1;
        self.jobs.push_back(job);
    }

    /// Makes all progress that is possible without waiting.
    ///
    /// # Errors
    /// The error, and the number of the job that it belongs to.
    fn proceed(&mut self) -> Result<(), (Cause, u64)> {
        self.hear()?;
        self.land()?;
        self.launch()?;
        self.answer();
        let Some(first) = self.jobs.front().map(|job| job.number) else { return Ok(()) };
        if !self.flights.is_empty() && self.asked.elapsed() > ASK {
            self.asked = Instant::now();
            let asked = self.comm.as_ref().map_or(Ok(None), Comm::asynchronous_error);
            if let Some((code, text)) = asked.map_err(|failed| (failed.into(), first))? {
                return Err((Cause::Asynchronous { library: self.library, code, text }, first));
            }
        }
        // If the announcement has not ended, the base communicator names the missing rank.
        let expired = |job: &&Active| job.announced.is_none() && job.started.elapsed() > job.at.deadline;
        match self.jobs.iter().find(expired) {
            Some(job) => Err((Cause::Deadline { waited: job.at.deadline, peers: self.peers() }, job.number)),
            None => Ok(()),
        }
    }

    /// The states of peers if all other ranks have arrived.
    fn peers(&self) -> Vec<Peer> {
        let own = self.staging.place().0;
        let peer = |(rank, host): (usize, &Arc<str>)| Peer { rank, host: host.clone(), state: PeerState::Arrived };
        self.hosts.iter().enumerate().filter(|(rank, _)| *rank != own).map(peer).collect()
    }

    /// Checks the announcements of the other ranks.
    fn hear(&mut self) -> Result<(), (Cause, u64)> {
        for job in &mut self.jobs {
            let Some((pending, own)) = job.announced.take() else { continue };
            match pending.poll() {
                Err(pending) => job.announced = Some((pending, own)),
                Ok(Err(error)) => return Err((*error.cause, job.number)),
                Ok(Ok(received)) => {
                    self.moved = Instant::now();
                    let parts = received.into_parts().unwrap_or_default();
                    let other = parts.iter().enumerate().find(|(_, part)| part.as_slice() != own.as_bytes());
                    if let Some((rank, theirs)) = other {
                        let theirs = String::from_utf8_lossy(theirs).into_owned();
                        return Err((Cause::Mismatch { rank, host: self.hosts[rank].clone(), theirs }, job.number));
                    }
                }
            }
        }
        Ok(())
    }

    /// Queues collectives, in the order of [`legs`] and of jobs, while slots are free and the
    /// inputs are ready.
    fn launch(&mut self) -> Result<(), (Cause, u64)> {
        let Some(comm) = &self.comm else { return Ok(()) };
        for job in &mut self.jobs {
            let number = job.number;
            let failed = |failed: Failed| (failed.into(), number);
            if job.announced.is_some() {
                return Ok(());
            }
            match &mut job.body {
                Body::Host { values, wire, legs, sums } => {
                    while let Some(leg) = legs.front() {
                        let Range { start, end } = leg.values;
                        let own = match leg.kind {
                            Kind::Collect => match sums.get(&start) {
                                Some(sums) => sums.as_slice(),
                                None => return Ok(()),
                            },
                            // Only the root's values are copied.
                            Kind::Broadcast { root } if root != self.staging.place().0 => &[],
                            _ => &values[start..end],
                        };
                        let Some(slot) = self.staging.slot() else { return Ok(()) };
                        self.staging.launch(comm, slot, leg, *wire, own).map_err(failed)?;
                        if leg.kind == Kind::Collect {
                            sums.remove(&start);
                        }
                        let Some(leg) = legs.pop_front() else { return Ok(()) };
                        self.flights.push_back(Flight { job: number, landing: Landing::Slot(slot, leg, *wire) });
                        job.flying += 1;
                        self.moved = Instant::now();
                    }
                }
                Body::Card { values, task, ready } => {
                    if let Some(event) = ready.take() {
                        // SAFETY: the caller that started it promises that the values are on this
                        // GPU, and that nothing uses them before the answer, which follows the
                        // event.
                        let done = unsafe { self.staging.launch_in_place(comm, *task, *values, &event) };
                        let landing = Landing::Event(done.map_err(failed)?);
                        self.flights.push_back(Flight { job: number, landing });
                        job.flying += 1;
                        self.moved = Instant::now();
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the results that have arrived. They arrive in the order in which they were queued.
    fn land(&mut self) -> Result<(), (Cause, u64)> {
        while let Some(Flight { job: number, landing }) = self.flights.front() {
            let failed = |failed: Failed| (failed.into(), *number);
            let landed = match landing {
                Landing::Slot(slot, ..) => self.staging.has_landed(*slot),
                Landing::Event(event) => event.has_happened(),
            };
            if !landed.map_err(failed)? {
                return Ok(());
            }
            let Some(Flight { job: number, landing }) = self.flights.pop_front() else { return Ok(()) };
            self.moved = Instant::now();
            let Some(job) = self.jobs.iter_mut().find(|job| job.number == number) else { continue };
            job.flying -= 1;
            let (Landing::Slot(slot, leg, wire), Body::Host { values, sums, .. }) = (landing, &mut job.body) else {
                continue;
            };
            let received = self.staging.take(slot, &leg, wire);
            let Range { start, end } = leg.values;
            if leg.kind == Kind::Exchange {
                let parts: Vec<&[f32]> = received.chunks(leg.count(self.hosts.len())).collect();
                sums.insert(start, sum_in_order(&parts));
            } else {
                // Leaves out the padding of the last slices.
                values[start..end].copy_from_slice(&received[..end - start]);
            }
        }
        Ok(())
    }

    /// Answers completed jobs, in order.
    fn answer(&mut self) {
        let done = |job: &Active| job.announced.is_none() && job.flying == 0 && job.is_queued();
        while self.jobs.front().is_some_and(done) {
            let Some(job) = self.jobs.pop_front() else { return };
            let received = match job.body {
                Body::Host { values, .. } => Received::Values(values),
                Body::Card { .. } => Received::Nothing,
            };
            // A caller that dropped its `Pending` needs no answer.
            let _ = job.answer.send(Ok(received));
        }
    }

    /// Ends the communicator without the other ranks, and waits for the GPU to stop.
    pub(super) fn stop(&mut self) {
        // Dropping a communicator aborts it.
        drop(self.comm.take());
        self.staging.drain(STOPS);
    }

    /// Fails all jobs in progress: the job with this number with the cause, the others as a
    /// consequence.
    fn fail_all(&mut self, cause: Cause, number: u64) {
        self.stop();
        // Events may be released only after the GPU has passed them; if it did not stop, they are
        // leaked.
        let stopped = self.staging.drain(Duration::ZERO);
        for flight in self.flights.drain(..) {
            if !stopped {
                std::mem::forget(flight);
            }
        }
        let mut jobs: Vec<Active> = self.jobs.drain(..).collect();
        jobs.sort_by_key(|job| (job.number != number, job.number));
        let mut jobs = jobs.into_iter();
        let first = jobs.next().map(|job| (self.error(&job, cause.clone()), job));
        let later = match (cause, &first) {
            (cause @ Cause::PeerFault { .. }, _) | (cause, None) => cause,
            (_, Some((error, _))) => Cause::Earlier(error.clone()),
        };
        // Set before the answers are sent: operations that are started from now on fail.
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(later.clone());
        if let Some((error, job)) = first {
            let _ = job.answer.send(Err(error));
        }
        for job in jobs {
            let _ = job.answer.send(Err(self.error(&job, later.clone())));
        }
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

/// The announcement of an operation by a rank: ranks with different announcements do not match.
pub(super) fn announcement(work: &Work) -> String {
    let (place, count, wire, task) = match work {
        Work::Host { values, wire, task } => ("", values.len(), wire, task),
        Work::Card { values, task, .. } => (" on the card", values.count, &values.wire, task),
    };
    match task {
        Task::Sum(Order::Rank) => format!("all-reduce{place} of {count} values, {wire:?}, order Rank"),
        Task::Sum(Order::Any) => format!("all-reduce{place} of {count} values, {wire:?}, order Any"),
        Task::Broadcast { root } => format!("broadcast{place} of {count} values, {wire:?}, root {root}"),
    }
}
