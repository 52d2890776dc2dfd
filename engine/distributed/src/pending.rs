//! An operation that was started and not waited for: [`Pending`].

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::waits::Ledger;
use crate::{At, CommError, Received};

/// What a backend sends when an operation has ended.
pub(crate) type Answer = Result<Received, CommError>;

/// An operation that was started. It proceeds whether or not it is waited for; dropping it ignores
/// its result.
pub struct Pending<T> {
    answer: Receiver<Answer>,
    started: Instant,
    /// How long after the start the answer is waited for.
    patience: Duration,
    /// The error where no answer came by then.
    late: Box<dyn FnOnce() -> CommError + Send>,
    ledger: Arc<Ledger>,
    phase: String,
    bytes: u64,
    take: fn(Received) -> T,
}

impl Pending<Received> {
    /// An operation whose result comes over `answer`, or `late` after `patience`.
    pub(crate) fn new(
        answer: Receiver<Answer>,
        patience: Duration,
        late: impl FnOnce() -> CommError + Send + 'static,
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
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                let error = (self.late)();
                // It may have come while the error was being made.
                self.answer.try_recv().unwrap_or(Err(error))
            }
        };
        self.ledger.record(&self.phase, self.bytes, begin.elapsed());
        answer.map(self.take)
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("phase", &self.phase).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
