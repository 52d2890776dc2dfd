//! An operation that was started and not waited for: [`Pending`].

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use crate::waits::Ledger;
use crate::{At, CommError, Received};

/// What a backend sends when an operation has ended.
pub(crate) type Answer = Result<Received, CommError>;

/// Why an answer has not come.
pub(crate) enum Late {
    /// It will not: the error.
    Never(CommError),
    /// It is about to come; the error if it does not after all.
    Soon(CommError),
}

/// An operation that was started. It proceeds whether or not it is waited for; dropping it ignores
/// its result.
pub struct Pending<T> {
    answer: Receiver<Answer>,
    started: Instant,
    /// How long after the start the answer is waited for.
    patience: Duration,
    /// What is said where no answer came by then.
    late: Box<dyn FnOnce() -> Late + Send>,
    ledger: Arc<Ledger>,
    phase: String,
    bytes: u64,
    take: fn(Received) -> T,
}

/// The answer when its time has passed, or when none can come any more.
fn overdue(answer: &Receiver<Answer>, late: Box<dyn FnOnce() -> Late + Send>) -> Answer {
    let late = late();
    // It may have come while the reason was looked for.
    match (answer.try_recv(), late) {
        (Ok(answer), _) => answer,
        (Err(_), Late::Never(error)) => Err(error),
        (Err(_), Late::Soon(error)) => answer.recv().unwrap_or(Err(error)),
    }
}

impl Pending<Received> {
    /// An operation whose result comes over `answer`, or `late` after `patience`.
    pub(crate) fn new(
        answer: Receiver<Answer>,
        patience: Duration,
        late: impl FnOnce() -> Late + Send + 'static,
        (ledger, at, bytes): (Arc<Ledger>, &At, u64),
    ) -> Self {
        let (started, phase) = (Instant::now(), at.phase.to_string());
        Pending { answer, started, patience, late: Box::new(late), ledger, phase, bytes, take: |received| received }
    }

    /// With a result of another type.
    pub fn map<T>(self, take: fn(Received) -> T) -> Pending<T> {
        let Pending { answer, started, patience, late, ledger, phase, bytes, .. } = self;
        Pending { answer, started, patience, late, ledger, phase, bytes, take }
    }
}

impl<T> Pending<T> {
    /// Waits for the result. The time is added to the communicator's [`Waits`](crate::Waits).
    ///
    /// # Errors
    /// Where a rank does not arrive by the deadline, reports a fault or leaves, or the library
    /// reports an error.
    pub fn wait(self) -> Result<T, CommError> {
        let begin = Instant::now();
        let answer = self.answer.recv_timeout((self.started + self.patience).saturating_duration_since(begin));
        let answer = match answer {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => overdue(&self.answer, self.late),
        };
        self.ledger.record(&self.phase, self.bytes, begin.elapsed());
        answer.map(self.take)
    }
}

impl Pending<Received> {
    /// The answer, if there is one by now: from the backend, or because its time has passed. This
    /// counts as no wait.
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
