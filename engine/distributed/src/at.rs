//! The place of an operation in a run: [`At`].

use std::borrow::Cow;
use std::time::Duration;

/// The default deadline of an operation: 5 minutes.
pub const DEADLINE: Duration = Duration::from_secs(300);

/// The place of an operation in a run, and its deadline. Errors name phase and step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    /// The part of the run: `gradients`, `validation`, ...
    pub phase: Cow<'static, str>,
    /// The iteration, from 0.
    pub step: u64,
    /// The time after the start at which the operation fails if a rank has not arrived.
    pub deadline: Duration,
}

impl At {
    /// A phase and a step, with [`DEADLINE`].
    pub fn new(phase: impl Into<Cow<'static, str>>, step: u64) -> Self {
        At { phase: phase.into(), step, deadline: DEADLINE }
    }

    /// The same with another deadline.
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }
}
