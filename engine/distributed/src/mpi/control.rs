//! Messages between ranks besides operations: faults, and states: [`Control`].

use std::ffi::c_int;
use std::time::Duration;

use hearth_machine::Awake;
use serde::{Deserialize, Serialize};

use super::abi::Handle;
use super::calls::{Mpi, Request};
use crate::{Cause, PeerState};

/// The tag of these messages.
const TAG: c_int = 4711;
/// The longest message, in bytes.
const ROOM: usize = 2048;
/// The longest text in a message, in characters.
const TEXT: usize = 400;

/// A message from one rank to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Message {
    /// Asks a rank for its state.
    Question { from: usize },
    /// The number of operations that were started, and the last one.
    Answer { from: usize, count: u64, last: String },
    /// A rank cannot continue. The sender forwards the fault if it is another rank.
    Fault { from: usize, code: i32, why: String },
}

/// The operations that this rank has started.
#[derive(Clone, Debug, Default)]
pub(super) struct Started {
    /// The number of operations.
    pub count: u64,
    /// The last one, for messages.
    pub last: String,
}

/// A fault that another rank reported.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    pub rank: usize,
    pub code: i32,
    pub why: String,
}

/// Messages between ranks, on a separate communicator.
pub(super) struct Control<H> {
    comm: H,
    rank: usize,
    outgoing: Vec<Request<H>>,
    /// The answer of each rank to the last question.
    answers: Vec<Option<(u64, String)>>,
}

/// Shortens a text to fit in a message, for any characters.
fn short(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(TEXT).collect()
}

impl<H: Handle> Control<H> {
    pub(super) fn new(comm: H, rank: usize, world: usize) -> Self {
        Control { comm, rank, outgoing: Vec::new(), answers: vec![None; world] }
    }

    fn send(&mut self, mpi: &Mpi<H>, to: usize, message: &Message) {
        let bytes = serde_json::to_vec(message).unwrap_or_default();
        // Most failures mean that a rank cannot be reached, which is noticed elsewhere.
        match mpi.send(self.comm, bytes, to, TAG) {
            Ok(request) => self.outgoing.push(request),
            Err(cause) => tracing::debug!(to, %cause, "message to a rank not sent"),
        }
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<H> {
        let rank = self.rank;
        (0..self.answers.len()).filter(move |other| *other != rank)
    }

    /// Answers questions; returns a fault that another rank has reported. Also lets the library
    /// make progress when no call is in progress.
    ///
    /// # Errors
    /// If the library reports an error.
    pub(super) fn serve(&mut self, mpi: &Mpi<H>, started: &Started) -> Result<Option<Fault>, Cause> {
        self.outgoing.retain_mut(|request| matches!(mpi.test(request), Ok(false)));
        while let Some(message) = mpi.receive::<ROOM>(self.comm, TAG)? {
            let end = message.iter().position(|byte| *byte == 0).unwrap_or(ROOM);
            match serde_json::from_slice(&message[..end]) {
                Ok(Message::Question { from }) if from < self.answers.len() => {
                    let Started { count, last } = started.clone();
                    self.send(mpi, from, &Message::Answer { from: self.rank, count, last: short(&last) });
                }
                Ok(Message::Answer { from, count, last }) if from < self.answers.len() => {
                    self.answers[from] = Some((count, last));
                }
                Ok(Message::Fault { from, code, why }) if from < self.answers.len() => {
                    return Ok(Some(Fault { rank: from, code, why }));
                }
                other => tracing::debug!(?other, "message of a rank ignored"),
            }
        }
        Ok(None)
    }

    /// Asks the other ranks for their states, and waits for up to `patience`. Returns their states
    /// for operation number `number`, or a fault that one reports.
    ///
    /// # Errors
    /// If the library reports an error.
    pub(super) fn ask(
        &mut self,
        mpi: &Mpi<H>,
        number: u64,
        started: &Started,
        patience: Duration,
    ) -> Result<Result<Vec<(usize, PeerState)>, Fault>, Cause> {
        self.answers.fill(None);
        for other in self.others() {
            self.send(mpi, other, &Message::Question { from: self.rank });
        }
        let begin = Awake::now();
        while begin.elapsed() < patience && self.others().any(|other| self.answers[other].is_none()) {
            if let Some(fault) = self.serve(mpi, started)? {
                return Ok(Err(fault));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let state = |other: usize| match &self.answers[other] {
            None => PeerState::Silent,
            Some((count, _)) if *count > number => PeerState::Arrived,
            Some((_, last)) => PeerState::Behind { last: last.clone() },
        };
        Ok(Ok(self.others().map(|other| (other, state(other))).collect()))
    }

    /// Reports a fault to the other ranks, and waits for up to `patience` until the messages are
    /// sent.
    pub(super) fn report(&mut self, mpi: &Mpi<H>, fault: &Fault, patience: Duration) {
        let fault = Message::Fault { from: fault.rank, code: fault.code, why: short(&fault.why) };
        for other in self.others() {
            self.send(mpi, other, &fault);
        }
        let begin = Awake::now();
        while begin.elapsed() < patience && !self.outgoing.is_empty() {
            self.outgoing.retain_mut(|request| matches!(mpi.test(request), Ok(false)));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_fits_in_a_message() {
        for text in ["\"\u{1}\\".repeat(1000), "\u{10ffff}".repeat(1000), "why".to_owned()] {
            let fault = Message::Fault { from: usize::MAX, code: i32::MIN, why: short(&text) };
            let bytes = serde_json::to_vec(&fault).expect("a message");
            assert!(bytes.len() <= ROOM && !bytes.contains(&0), "{} bytes", bytes.len());
            assert_eq!(serde_json::from_slice::<Message>(&bytes).expect("the message"), fault);
        }
    }
}
