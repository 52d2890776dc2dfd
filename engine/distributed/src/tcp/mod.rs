//! Ranks over TCP, for machines without MPI: [`TcpCommunicator`].
//!
//! A launcher starts the ranks, and gives each the same table of [`Seat`]s and the same [`Secret`];
//! it gets the ports from the ranks ([`Listening`]). Each rank is connected with each other one.
//! Values are always added in the order of ranks, as by threads: bit for bit the same result.
//!
//! Connections are authenticated, and not encrypted, as those of MPI: for networks that are trusted.

mod error;
mod frame;
mod meet;
mod round;
mod secret;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use hearth_machine::Awake;

pub use error::TcpError;
pub use meet::{Listening, Seat};
pub use secret::Secret;

use self::worker::{ANSWERS, Event, Worker};
use crate::job::Job;
use crate::pending::Late;
use crate::waits::Ledger;
use crate::{At, Cause, CommError, Communicator, Operation, Pending, Received, Waits};

/// The time after a deadline in which the thread that keeps the operations has to report it.
const REPORT: Duration = Duration::from_secs(5);

/// One of the ranks of a run, connected with the others over TCP.
#[derive(Debug)]
pub struct TcpCommunicator {
    rank: usize,
    hosts: Vec<Arc<str>>,
    events: Sender<Event>,
    ledger: Arc<Ledger>,
    finished: AtomicBool,
}

impl TcpCommunicator {
    /// Connects this rank with the others, whose places `seats` has in the order of ranks.
    /// `deadline` limits the wait for them.
    ///
    /// # Errors
    /// If a rank cannot be reached, does not connect in time, or the system refuses a thread.
    pub fn join(listening: Listening, seats: &[Seat], secret: &Secret, deadline: Duration) -> Result<Self, TcpError> {
        let rank = listening.rank();
        let links = listening.connect(seats, secret, deadline)?;
        let hosts: Vec<Arc<str>> = seats.iter().map(|seat| seat.host.as_str().into()).collect();
        let (events, receiver) = channel();
        let worker = Worker::new(rank, hosts.clone(), links, &events)?;
        let thread = std::thread::Builder::new().name("hearth-tcp".to_owned());
        thread.spawn(move || worker.run(&receiver)).map_err(|error| TcpError::System(error.to_string()))?;
        tracing::debug!(rank, world = hosts.len(), "ranks connected over TCP");
        Ok(TcpCommunicator { rank, hosts, events, ledger: Arc::default(), finished: AtomicBool::new(false) })
    }

    /// Waits until an event with an answer has been handled, for as long as that may take.
    fn handle(&self, event: impl FnOnce(Sender<()>) -> Event) {
        let (done, handled) = channel();
        if self.events.send(event(done)).is_ok() {
            // If the thread does not answer, the others notice at their deadline.
            let _ = handled.recv_timeout(ANSWERS * 2);
        }
    }
}

impl Communicator for TcpCommunicator {
    fn rank(&self) -> usize {
        self.rank
    }

    fn hosts(&self) -> &[Arc<str>] {
        &self.hosts
    }

    fn start(&self, operation: Operation, at: &At) -> Pending<Received> {
        let (name, bytes, started) = (operation.name(), operation.bytes(), Awake::now());
        let (answer, receiver) = channel();
        let job = Job { operation, at: at.clone(), started, answer };
        // If the thread has ended, the job's sender is dropped, and the wait ends with `late`.
        let sent = self.events.send(Event::Start(job)).is_ok();
        let deadline = at.deadline;
        let finished = self.error(name, at, Cause::Finished);
        let stuck = self.error(name, at, Cause::Stuck { library: "TCP", waited: deadline });
        let late = move || Late::Never(if sent && started.elapsed() > deadline { stuck } else { finished });
        Pending::new(receiver, at.deadline + ANSWERS + REPORT, late, (self.ledger.clone(), at, bytes))
    }

    fn abort(&self, code: i32, why: &str) {
        let why = why.to_owned();
        self.handle(|done| Event::Abort { code, why, done });
    }

    fn finish(&self, at: &At) -> Result<(), CommError> {
        self.barrier(at)?;
        self.finished.store(true, Ordering::Relaxed);
        self.handle(|done| Event::Leave { fault: None, done });
        Ok(())
    }

    fn waits(&self) -> Waits {
        self.ledger.waits()
    }
}

impl Drop for TcpCommunicator {
    fn drop(&mut self) {
        if self.finished.load(Ordering::Relaxed) {
            return;
        }
        let (code, why) =
            if std::thread::panicking() { (101, "it panicked") } else { (1, "it left before the run was finished") };
        self.handle(|done| Event::Leave { fault: Some((code, why.to_owned())), done });
    }
}
