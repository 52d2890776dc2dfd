//! Ranks whose sums are computed on their GPUs: [`OnCards`].

use std::ffi::c_void;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use hearth_machine::Awake;

use super::card::Card;
use super::nccl::{Nccl, Version};
use super::plan::Task;
use super::staging::CardValues;
use super::worker::{Command, Fault, Job, STOPS, Work, announcement};
use super::{Vendor, library_name};
use crate::pending::Late;
use crate::waits::Ledger;
use crate::{At, Cause, CommError, Communicator, Operation, Order, Pending, Received, Waits};

/// The time after a deadline in which the thread that owns the GPU has to report it. Meanwhile the
/// base communicator asks the other ranks for their states, and the GPU stops.
pub(super) const REPORT: Duration = Duration::from_secs(10);

/// A [`Communicator`] whose all-reduce runs on the ranks' GPUs, by NCCL or RCCL. Everything else
/// uses the base communicator.
///
/// Each all-reduce is also announced over the base communicator. This finds a rank that is missing,
/// has failed or does something else, and names it. The GPUs start when all ranks have arrived.
pub struct OnCards {
    base: Arc<dyn Communicator>,
    card: Arc<Card>,
    nccl: Arc<Nccl>,
    commands: Sender<Command>,
    ledger: Arc<Ledger>,
    fault: Fault,
    finished: AtomicBool,
}

impl OnCards {
    pub(super) fn new(
        base: Arc<dyn Communicator>,
        (card, nccl): (Arc<Card>, Arc<Nccl>),
        commands: Sender<Command>,
        fault: Fault,
    ) -> Self {
        OnCards { base, card, nccl, commands, ledger: Arc::default(), fault, finished: AtomicBool::new(false) }
    }

    /// The index of this rank's GPU among those that the process sees.
    pub fn card(&self) -> usize {
        self.card.index
    }

    /// The GPU's address on the bus.
    pub fn bus(&self) -> &str {
        &self.card.bus
    }

    /// The vendor of the GPUs.
    pub fn vendor(&self) -> Vendor {
        self.nccl.vendor
    }

    /// The name under which the library was found.
    pub fn library(&self) -> &str {
        &self.nccl.name
    }

    /// The version of the library.
    pub fn version(&self) -> Version {
        self.nccl.version
    }

    /// Starts the broadcast of the root's values, over the GPUs. Every rank gives the same number
    /// of values; those of other ranks are ignored.
    pub fn start_broadcast(&self, values: Vec<f32>, root: usize, at: &At) -> Pending<Vec<f32>> {
        let work = Work::Host { values, wire: crate::Wire::F32, task: Task::Broadcast { root } };
        self.start_work("broadcast", work, at).map(Received::into_values)
    }

    /// Starts the sum of the ranks' values in place: they are on the GPU, and the sum replaces
    /// them. The library determines the order.
    ///
    /// The sum starts after the work that is queued on `stream` now; null is the default stream.
    /// When [`Pending::wait`] has returned, the sum is visible to every stream.
    ///
    /// # Safety
    /// - `values` are `count` values in memory of [`OnCards::card`] (with CUDA, of its primary
    ///   context), and `stream` is a stream of that GPU.
    /// - Until [`Pending::wait`] has returned, only the work that is queued on `stream` now reads,
    ///   writes or frees them, even if the result is not waited for.
    /// - If it returns an error, the GPU may still use them, and they must not be freed.
    pub unsafe fn start_all_reduce_on_card(&self, values: CardValues, stream: *mut c_void, at: &At) -> Pending<()> {
        // SAFETY: the caller promises the same.
        unsafe { self.start_on_card("all-reduce", values, Task::Sum(Order::Any), stream, at) }
    }

    /// As [`OnCards::start_all_reduce_on_card`], with the root's values in place of the sum.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn start_broadcast_on_card(
        &self,
        values: CardValues,
        root: usize,
        stream: *mut c_void,
        at: &At,
    ) -> Pending<()> {
        // SAFETY: the caller promises the same.
        unsafe { self.start_on_card("broadcast", values, Task::Broadcast { root }, stream, at) }
    }

    /// # Safety
    /// As [`OnCards::start_all_reduce_on_card`].
    unsafe fn start_on_card(
        &self,
        name: &'static str,
        values: CardValues,
        task: Task,
        stream: *mut c_void,
        at: &At,
    ) -> Pending<()> {
        let ready = self.card.enter().and_then(|here| {
            let event = here.event()?;
            // SAFETY: the caller promises the stream, and the GPU is current.
            unsafe { event.record_on(stream) }?;
            Ok(event.send())
        });
        match ready {
            Ok(ready) => self.start_work(name, Work::Card { values, task, ready }, at).map(|_| ()),
            Err(failed) => self.refused(name, failed.into(), at).map(|_| ()),
        }
    }

    fn start_work(&self, name: &'static str, work: Work, at: &At) -> Pending<Received> {
        let root = match &work {
            Work::Host { task, .. } | Work::Card { task, .. } => match task {
                Task::Broadcast { root } => Some(*root),
                Task::Sum(_) => None,
            },
        };
        let refused = match (self.failed(), root) {
            (Some(cause), _) => Some(cause),
            (None, Some(root)) if root >= self.world() => Some(Cause::NoSuchRank { root }),
            _ => None,
        };
        if let Some(cause) = refused {
            return self.refused(name, cause, at);
        }
        let bytes = match &work {
            Work::Host { values, wire, .. } => values.len() * wire.bytes_per_value(),
            Work::Card { values, .. } => values.count * values.wire.bytes_per_value(),
        };
        let own = announcement(&work);
        let pending = self.base.start(Operation::AllGather { bytes: own.clone().into_bytes() }, at);
        let started = Awake::now();
        let (answer, receiver) = channel();
        let job = Job { name, work, at: at.clone(), started, announced: (pending, own), answer };
        // If the thread has ended, the job's sender is dropped, and the wait ends with `late`.
        let sent = self.commands.send(Command::Start(Box::new(job))).is_ok();
        let finished = self.error(name, at, Cause::Finished);
        let library = library_name(self.nccl.vendor);
        let (deadline, fault) = (at.deadline, self.fault.clone());
        let stuck = self.error(name, at, Cause::Stuck { library, waited: deadline });
        let late = move || {
            if !sent || started.elapsed() <= deadline {
                return Late::Never(finished);
            }
            // Operations that are started from now on do not wait for the thread either.
            let mut fault = fault.lock().unwrap_or_else(PoisonError::into_inner);
            fault.get_or_insert(Cause::Earlier(stuck.clone()));
            Late::Never(stuck)
        };
        Pending::new(receiver, deadline + REPORT, late, (self.ledger.clone(), at, bytes as u64))
    }

    /// The reason why operations can no longer be started.
    fn failed(&self) -> Option<Cause> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn refused(&self, name: &'static str, cause: Cause, at: &At) -> Pending<Received> {
        let (answer, receiver) = channel();
        let error = self.error(name, at, cause);
        // The receiver exists.
        let _ = answer.send(Err(error.clone()));
        Pending::new(receiver, at.deadline, || Late::Never(error), (self.ledger.clone(), at, 0))
    }
}

impl Communicator for OnCards {
    fn rank(&self) -> usize {
        self.base.rank()
    }

    fn hosts(&self) -> &[Arc<str>] {
        self.base.hosts()
    }

    fn start(&self, operation: Operation, at: &At) -> Pending<Received> {
        let name = operation.name();
        match (operation, self.failed()) {
            (Operation::AllReduce { values, how }, _) => {
                let work = Work::Host { values, wire: how.wire, task: Task::Sum(how.order) };
                self.start_work(name, work, at)
            }
            (_, Some(cause)) => self.refused(name, cause, at),
            (operation, None) => self.base.start(operation, at),
        }
    }

    fn abort(&self, code: i32, why: &str) {
        self.base.abort(code, why);
    }

    fn finish(&self, at: &At) -> Result<(), CommError> {
        // All ranks end their communicators at the same time, because the libraries wait for each
        // other.
        self.barrier(at)?;
        let (done, ended) = channel();
        if self.commands.send(Command::Finish(done)).is_err() {
            return Err(self.error("finish", at, Cause::Finished));
        }
        self.finished.store(true, Ordering::Relaxed);
        let library = library_name(self.nccl.vendor);
        match Awake::now().receive(&ended, at.deadline) {
            Ok(ended) => ended.map_err(|cause| self.error("finish", at, cause))?,
            Err(_) => return Err(self.error("finish", at, Cause::Stuck { library, waited: at.deadline })),
        }
        self.base.finish(at)
    }

    fn on_cards(&self) -> Option<&OnCards> {
        Some(self)
    }

    fn waits(&self) -> Waits {
        self.base.waits().and(self.ledger.waits())
    }
}

impl Drop for OnCards {
    fn drop(&mut self) {
        if self.finished.load(Ordering::Relaxed) {
            return;
        }
        let (done, left) = channel();
        if self.commands.send(Command::Leave(done)).is_ok() {
            // If the library is stuck, the thread is left running.
            let _ = left.recv_timeout(STOPS * 2);
        }
    }
}

impl fmt::Debug for OnCards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rank, world) = (self.rank(), self.world());
        f.debug_struct("OnCards")
            .field("rank", &rank)
            .field("world", &world)
            .field("card", &self.card.index)
            .finish_non_exhaustive()
    }
}
