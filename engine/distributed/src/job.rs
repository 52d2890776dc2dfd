//! Operations that the thread of a backend carries out: [`Job`], [`Ticket`], [`fail`].

use std::sync::Arc;
use std::sync::mpsc::Sender;

use hearth_machine::Awake;

use crate::pending::Answer;
use crate::{At, Cause, CommError, Operation};

/// An operation, and the receiver of its result.
#[derive(Debug)]
pub(crate) struct Job {
    pub operation: Operation,
    pub at: At,
    pub started: Awake,
    pub answer: Sender<Answer>,
}

/// The rest of a job after its data has been handed on.
#[derive(Debug)]
pub(crate) struct Ticket {
    /// Its place among the operations that this rank has started.
    pub number: u64,
    pub name: &'static str,
    pub at: At,
    pub started: Awake,
    pub answer: Sender<Answer>,
}

impl Ticket {
    /// The error of the operation on `rank` of `world` ranks.
    pub fn error(&self, (rank, world): (usize, usize), hosts: &[Arc<str>], cause: Cause) -> CommError {
        CommError {
            rank,
            world,
            host: hosts[rank].clone(),
            phase: self.at.phase.clone(),
            step: self.at.step,
            operation: self.name,
            cause: Box::new(cause),
        }
    }

    /// Whether its deadline has passed.
    pub fn is_late(&self) -> bool {
        self.started.elapsed() > self.at.deadline
    }
}

/// Fails operations, the first of them with the cause, the others as a consequence; what another rank did
/// is the cause for all. Returns the cause of what fails later.
pub(crate) fn fail(
    tickets: impl IntoIterator<Item = Ticket>,
    cause: Cause,
    place: (usize, usize),
    hosts: &[Arc<str>],
) -> Cause {
    let mut tickets = tickets.into_iter();
    // A caller that dropped its `Pending` needs no answer.
    let answer = |ticket: &Ticket, error| drop(ticket.answer.send(Err(error)));
    let later = match (cause, tickets.next()) {
        (cause @ (Cause::PeerFault { .. } | Cause::Lost { .. }), Some(ticket)) => {
            answer(&ticket, ticket.error(place, hosts, cause.clone()));
            cause
        }
        (cause, Some(ticket)) => {
            let error = ticket.error(place, hosts, cause);
            answer(&ticket, error.clone());
            Cause::Earlier(error)
        }
        (cause, None) => cause,
    };
    for ticket in tickets {
        answer(&ticket, ticket.error(place, hosts, later.clone()));
    }
    later
}
