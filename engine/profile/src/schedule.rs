//! The steps to record: [`Schedule`].

use serde::{Deserialize, Serialize};

/// A schedule in cycles of steps (`torch.profiler.schedule`): each cycle ignores `wait` steps, runs
/// `warmup` steps with the recording prepared, and records `active` steps. The schedule ends after
/// `repeat` cycles, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Schedule {
    /// Ignored steps at the start of a cycle.
    pub wait: u64,
    /// Steps after them that are not recorded either, because first steps are slower.
    pub warmup: u64,
    /// Steps that are recorded.
    pub active: u64,
    /// The number of cycles; 0 means as many as the run has.
    pub repeat: u64,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { wait: 1, warmup: 1, active: 3, repeat: 1 }
    }
}

/// The action for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing is done, also after the last cycle.
    None,
    /// The step runs unrecorded, and the next one may be recorded.
    Warmup,
    /// The step is recorded.
    Record,
    /// The step is recorded, and is the last one of its cycle.
    RecordAndSave,
}

/// The error of a schedule that records nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleError;

impl std::fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("active = 0 records no step; give 1 or more")
    }
}

impl std::error::Error for ScheduleError {}

impl Schedule {
    /// Checks the schedule.
    ///
    /// # Errors
    /// Where no step is active.
    pub fn check(&self) -> Result<(), ScheduleError> {
        if self.active == 0 { Err(ScheduleError) } else { Ok(()) }
    }

    /// The action for the step with this number, from 0.
    pub fn action(&self, step: u64) -> Action {
        let cycle = self.wait + self.warmup + self.active;
        if cycle == 0 || (self.repeat > 0 && step / cycle >= self.repeat) {
            return Action::None;
        }
        match step % cycle {
            place if place < self.wait => Action::None,
            place if place < self.wait + self.warmup => Action::Warmup,
            place if place + 1 < cycle => Action::Record,
            _ => Action::RecordAndSave,
        }
    }

    /// The number of steps until the schedule ends; `None` where it never ends.
    pub fn steps(&self) -> Option<u64> {
        (self.repeat > 0).then(|| self.repeat.saturating_mul(self.wait + self.warmup + self.active))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the results of `torch.profiler.schedule` for the same numbers.
    #[test]
    fn actions_are_torchs() {
        use Action::{None, Record, RecordAndSave, Warmup};
        let of = |wait, warmup, active, repeat| {
            let schedule = Schedule { wait, warmup, active, repeat };
            (0..8).map(|step| schedule.action(step)).collect::<Vec<_>>()
        };
        assert_eq!(of(1, 1, 3, 1), [None, Warmup, Record, Record, RecordAndSave, None, None, None]);
        assert_eq!(of(0, 1, 2, 2), [Warmup, Record, RecordAndSave, Warmup, Record, RecordAndSave, None, None]);
        assert_eq!(
            of(1, 0, 1, 0),
            [None, RecordAndSave, None, RecordAndSave, None, RecordAndSave, None, RecordAndSave]
        );
        assert_eq!(Schedule::default().steps(), Some(5));
        assert!(Schedule { active: 0, ..Schedule::default() }.check().is_err());
    }
}
