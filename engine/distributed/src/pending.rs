//! An operation in progress: [`Pending`].

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use hearth_machine::Awake;

use crate::waits::Ledger;
use crate::{At, CommError, Received};

/// The result of an operation, sent by a backend.
pub(crate) type Answer = Result<Received, CommError>;

/// The reason why an answer is late.
pub(crate) enum Late {
    /// The answer will not come; the error.
    Never(CommError),
    /// The answer is about to come; the error if it does not.
    Soon(CommError),
}

/// An operation that was started. It proceeds whether or not it is waited for. Dropping it discards
/// its result.
pub struct Pending<T> {
    answer: Receiver<Answer>,
    started: Awake,
    /// The time after the start for which the answer is waited for.
    patience: Duration,
    /// Creates the error if no answer arrived in that time.
    late: Box<dyn FnOnce() -> Late + Send>,
    ledger: Arc<Ledger>,
    phase: String,
    bytes: u64,
    take: fn(Received) -> T,
}

/// The answer after its time has passed, or when none can come any more.
fn overdue(answer: &Receiver<Answer>, late: Box<dyn FnOnce() -> Late + Send>) -> Answer {
    let late = late();
    // The answer may have arrived in the meantime.
    match (answer.try_recv(), late) {
        (Ok(answer), _) => answer,
        (Err(_), Late::Never(error)) => Err(error),
        (Err(_), Late::Soon(error)) => answer.recv().unwrap_or(Err(error)),
    }
}

impl Pending<Received> {
    /// An operation whose result is sent over `answer`; if none arrives within `patience`, `late`
    /// is called.
    pub(crate) fn new(
        answer: Receiver<Answer>,
        patience: Duration,
        late: impl FnOnce() -> Late + Send + 'static,
        (ledger, at, bytes): (Arc<Ledger>, &At, u64),
    ) -> Self {
        let (started, phase) = (Awake::now(), at.phase.to_string());
        Pending { answer, started, patience, late: Box::new(late), ledger, phase, bytes, take: |received| received }
    }

    /// Converts the result to another type.
    pub fn map<T>(self, take: fn(Received) -> T) -> Pending<T> {
        let Pending { answer, started, patience, late, ledger, phase, bytes, .. } = self;
        Pending { answer, started, patience, late, ledger, phase, bytes, take }
    }
}

impl<T> Pending<T> {
    /// Waits for the result. The time is added to the communicator's [`Waits`](crate::Waits).
    ///
    /// # Errors
    /// If a rank does not arrive by the deadline, reports a fault or leaves, or the library reports
    /// an error.
    pub fn wait(self) -> Result<T, CommError> {
        let begin = Instant::now();
        let answer = match self.started.receive(&self.answer, self.patience) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => overdue(&self.answer, self.late),
        };
        self.ledger.record(&self.phase, self.bytes, begin.elapsed());
        answer.map(self.take)
    }
}

impl Pending<Received> {
    /// The answer, if there is one by now: from the backend, or because its time has passed. This
    /// does not count as a wait.
    pub(crate) fn poll(self) -> Result<Answer, Self> {
        match self.answer.try_recv() {
            Ok(answer) => return Ok(answer),
            Err(TryRecvError::Empty) if self.started.elapsed() < self.patience => return Err(self),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
        }
        Ok(overdue(&self.answer, self.late))
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("phase", &self.phase).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
