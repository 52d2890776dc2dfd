//! Ranks over MPI, whose library is found at run time: [`MpiCommunicator`].
//!
//! Building needs nothing of MPI. The library is the launcher's, if that can be determined, or the
//! one that `HEARTH_MPI` names:
//!
//! | interface | library | handles |
//! |---|---|---|
//! | Open MPI 3 to 5 | `libmpi.so.40` | addresses of exported objects |
//! | MPICH, Intel MPI, MVAPICH, Cray MPICH | `libmpi.so.12` | `int` constants |
//! | standard of MPI 5 | `libmpi_abi.so.0` | pointer constants |
//!
//! A separate thread makes all calls. They are non-blocking, so that a rank that has stopped is
//! noticed at the deadline. The thread then asks the other ranks for their states, for the message.

// Unsafe code: this folder calls a C library whose functions are found at run time. `symbols` has
// their types, `calls` the rules of each call.

mod abi;
mod calls;
mod control;
mod error;
mod library;
mod symbols;
mod transfer;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use hearth_machine::Awake;

pub use abi::Interface;
pub use error::MpiError;
pub use library::library_names;

use self::abi::{Constants, Handle};
use self::calls::{Failed, Mpi};
use self::symbols::Functions;
use self::transfer::{Step, Transfer};
use self::worker::{ANSWERS, Command, LANES, Worker};
use crate::job::Job;
use crate::pending::Late;
use crate::waits::Ledger;
use crate::{At, Cause, CommError, Communicator, Launcher, Operation, Pending, Placement, Received, Waits};

/// The time after a deadline in which the thread that owns MPI has to report it.
const REPORT: Duration = Duration::from_secs(5);

/// Set once a process has opened MPI, which it can do only once.
static OPENED: AtomicBool = AtomicBool::new(false);

/// One of the ranks that a launcher started, connected over MPI.
#[derive(Debug)]
pub struct MpiCommunicator {
    rank: usize,
    hosts: Vec<Arc<str>>,
    library: String,
    interface: Interface,
    commands: Sender<Command>,
    ledger: Arc<Ledger>,
    finished: AtomicBool,
}

/// The report of the thread that owns MPI when it is ready.
struct Ready {
    rank: usize,
    hosts: Vec<Arc<str>>,
    library: String,
    interface: Interface,
}

impl MpiCommunicator {
    /// Connects the ranks that a launcher started. `deadline` limits the wait for all ranks to
    /// start.
    ///
    /// # Errors
    /// If no library is found, the library cannot be used or does not belong to the launcher, not
    /// all ranks start in time, or this process has opened MPI before.
    pub fn open(placement: Option<&Placement>, deadline: Duration) -> Result<Self, MpiError> {
        if OPENED.swap(true, Ordering::SeqCst) {
            return Err(MpiError::AlreadyOpen);
        }
        let (commands, receiver) = channel();
        let (report, ready) = channel();
        let placement = placement.copied();
        std::thread::Builder::new()
            .name("hearth-mpi".to_owned())
            .spawn(move || own(placement, deadline, &report, &receiver))
            .map_err(|error| MpiError::Thread(error.to_string()))?;
        let late = |_: RecvTimeoutError| late(placement.as_ref(), deadline);
        let Ready { rank, hosts, library, interface } =
            Awake::now().receive(&ready, deadline + REPORT).map_err(late)??;
        tracing::debug!(rank, world = hosts.len(), library, "ranks connected over MPI");
        let (ledger, finished) = (Arc::default(), AtomicBool::new(false));
        Ok(MpiCommunicator { rank, hosts, library, interface, commands, ledger, finished })
    }

    /// The library's name and version.
    pub fn library(&self) -> &str {
        &self.library
    }

    /// The interface of the library.
    pub fn interface(&self) -> Interface {
        self.interface
    }
}

/// The error for ranks that did not start in time. MPI returns the host's name only once it has
/// started.
fn late(placement: Option<&Placement>, deadline: Duration) -> MpiError {
    let rank = placement.map_or_else(|| "this process".to_owned(), |of| format!("rank {} of {}", of.rank, of.world));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let who = host.map_or_else(|_| rank.clone(), |host| format!("{rank} on {}", host.trim_end()));
    MpiError::Late { who, seconds: deadline.as_secs_f64() }
}

/// The main function of the thread that owns MPI.
fn own(
    placement: Option<Placement>,
    deadline: Duration,
    report: &Sender<Result<Ready, MpiError>>,
    commands: &Receiver<Command>,
) {
    let opened = match library::open(placement.as_ref()) {
        Ok(opened) => opened,
        Err(error) => return give_up(report, error),
    };
    let start = Start { name: opened.name.clone(), interface: opened.interface, placement, deadline };
    match opened.interface {
        Interface::Mpich => match opened.with_integers() {
            Ok(table) => start.work(table, report, commands),
            Err(error) => give_up(report, error),
        },
        Interface::OpenMpi | Interface::Standard => match opened.with_pointers() {
            Ok(table) => start.work(table, report, commands),
            Err(error) => give_up(report, error),
        },
    }
}

fn give_up(report: &Sender<Result<Ready, MpiError>>, error: MpiError) {
    // If the receiver is gone, the caller no longer waits.
    let _ = report.send(Err(error));
}

/// The parameters for setting up MPI.
struct Start {
    name: String,
    interface: Interface,
    placement: Option<Placement>,
    deadline: Duration,
}

impl Start {
    fn work<H: Handle>(
        self,
        (functions, constants): (Functions<H>, Constants<H>),
        report: &Sender<Result<Ready, MpiError>>,
        commands: &Receiver<Command>,
    ) {
        let mpi = Mpi::new(functions, constants);
        let connected = mpi.initialize().map_err(|failed| self.failed(&mpi, failed));
        match connected.and_then(|()| self.connect(&mpi)) {
            Ok((place, ready, lanes, control)) => {
                let worker = Worker::new(mpi, place, ready.hosts.clone(), lanes, control);
                if report.send(Ok(ready)).is_ok() {
                    worker.run(commands);
                }
            }
            Err(error) => {
                if matches!(error, MpiError::World { .. })
                    && let Err(cause) = mpi.finalize()
                {
                    tracing::debug!(%cause, "MPI of another launcher not finalized");
                }
                give_up(report, error);
            }
        }
    }

    fn failed<H: Handle>(&self, mpi: &Mpi<H>, failed: Failed) -> MpiError {
        let (function, code) = (failed.function, failed.code);
        let text = match mpi.explain(failed) {
            Cause::Call { text, .. } => text,
            other => other.to_string(),
        };
        MpiError::Call { name: self.name.clone(), function, code, text }
    }

    /// The places and hosts of the ranks, and the communicators of lanes and of messages.
    fn connect<H: Handle>(&self, mpi: &Mpi<H>) -> Result<(transfer::Place, Ready, Vec<H>, H), MpiError> {
        let failed = |failed| self.failed(mpi, failed);
        let place @ (rank, world) = mpi.place().map_err(failed)?;
        let version = mpi.version();
        self.check(world, &version)?;
        let lanes = (0..LANES).map(|_| mpi.duplicate_world()).collect::<Result<Vec<H>, _>>().map_err(failed)?;
        let control = mpi.duplicate_world().map_err(failed)?;
        let host = mpi.processor_name().map_err(failed)?;
        let hosts = self.hosts(mpi, lanes[0], place, host)?;
        let library = format!("{} ({version})", self.name);
        Ok((place, Ready { rank, hosts, library, interface: self.interface }, lanes, control))
    }

    fn check(&self, found: usize, version: &str) -> Result<(), MpiError> {
        let Some(Placement { world: expected, launcher, .. }) = self.placement else { return Ok(()) };
        if found == expected {
            return Ok(());
        }
        let advice = match launcher {
            Launcher::Torchrun => "torchrun starts no MPI ranks on several machines; start with mpirun or srun",
            Launcher::Slurm => {
                "start with srun --mpi=pmix (or --mpi=pmi2; srun --mpi=list has what there is), or name another MPI \
                 library in HEARTH_MPI"
            }
            _ => "it belongs to another launcher; name the library of this one in HEARTH_MPI",
        };
        let (launcher, name, version) = (launcher.to_string(), self.name.clone(), version.to_owned());
        Err(MpiError::World { launcher, expected, name, version, found, advice })
    }

    /// The host of each rank.
    fn hosts<H: Handle>(
        &self,
        mpi: &Mpi<H>,
        comm: H,
        place: transfer::Place,
        host: String,
    ) -> Result<Vec<Arc<str>>, MpiError> {
        let failed = |cause| CommError {
            rank: place.0,
            world: place.1,
            host: host.as_str().into(),
            phase: "start".into(),
            step: 0,
            operation: "all-gather",
            cause: Box::new(cause),
        };
        let operation = Operation::AllGather { bytes: host.clone().into_bytes() };
        let begin = Awake::now();
        let mut transfer = Transfer::begin(mpi, comm, place, operation).map_err(failed)?;
        loop {
            match transfer.poll(mpi, comm, place).map_err(failed)? {
                Step::Done(received) => {
                    let parts = received.into_parts().unwrap_or_default();
                    return Ok(parts.iter().map(|part| String::from_utf8_lossy(part).into()).collect());
                }
                Step::Next(next) => transfer = next,
                Step::Waits(_) if begin.elapsed() > self.deadline => {
                    return Err(late(self.placement.as_ref(), self.deadline));
                }
                Step::Waits(next) => {
                    transfer = next;
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }
}

impl Communicator for MpiCommunicator {
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
        let sent = self.commands.send(Command::Start(job)).is_ok();
        let deadline = at.deadline;
        let finished = self.error(name, at, Cause::Finished);
        let stuck = self.error(name, at, Cause::Stuck { library: "MPI", waited: deadline });
        let late = move || Late::Never(if sent && started.elapsed() > deadline { stuck } else { finished });
        Pending::new(receiver, at.deadline + ANSWERS + REPORT, late, (self.ledger.clone(), at, bytes))
    }

    fn abort(&self, code: i32, why: &str) {
        let sent = self.commands.send(Command::Abort { code, why: why.to_owned() });
        if sent.is_ok() {
            // The thread that owns MPI ends the process.
            std::thread::sleep(ANSWERS + REPORT);
        }
        std::process::exit(code);
    }

    fn finish(&self, at: &At) -> Result<(), CommError> {
        self.barrier(at)?;
        let (done, ended) = channel();
        if self.commands.send(Command::Finalize(done)).is_err() {
            return Err(self.error("finish", at, Cause::Finished));
        }
        self.finished.store(true, Ordering::Relaxed);
        match Awake::now().receive(&ended, at.deadline) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(cause)) => Err(self.error("finish", at, cause)),
            // All ranks have arrived, and no call is in progress. If the library then hangs, as
            // MPICH sometimes does over UCX and TCP, nothing is lost.
            Err(_) => {
                let stuck = self.error("finish", at, Cause::Stuck { library: "MPI", waited: at.deadline });
                tracing::warn!("{stuck}; all ranks had finished");
                Ok(())
            }
        }
    }

    fn waits(&self) -> Waits {
        self.ledger.waits()
    }
}

impl Drop for MpiCommunicator {
    fn drop(&mut self) {
        if self.finished.load(Ordering::Relaxed) {
            return;
        }
        let (code, why) =
            if std::thread::panicking() { (101, "it panicked") } else { (1, "it left before the run was finished") };
        let (done, left) = channel();
        if self.commands.send(Command::Leave { code, why: why.to_owned(), done }).is_ok() {
            // If the library is stuck, the other ranks notice at their deadline.
            let _ = left.recv_timeout(ANSWERS * 2);
        }
    }
}
