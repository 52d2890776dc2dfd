//! Where in a run an operation belongs: [`At`].

use std::borrow::Cow;
use std::time::Duration;

/// The deadline of an operation that names no other: 5 minutes.
pub const DEADLINE: Duration = Duration::from_secs(300);

/// Where in a run an operation belongs, and how long it may take. Errors name phase and step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    /// What the run is doing: `gradients`, `validation`, ...
    pub phase: Cow<'static, str>,
    /// The iteration, from 0.
    pub step: u64,
    /// How long after its start the operation fails if a rank has not arrived.
    pub deadline: Duration,
}

impl At {
    /// A phase and a step, with [`DEADLINE`].
    pub fn new(phase: impl Into<Cow<'static, str>>, step: u64) -> Self {
        At { phase: phase.into(), step, deadline: DEADLINE }
    }

    /// With another deadline.
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }
}
