//! The phases of a run over time: [`Phases`].

use std::fmt;

/// A phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Preparation, before the first epoch.
    Start,
    /// Training.
    Training,
    /// From the end of the epoch's iterations until the monitor is called for the epoch's end.
    Validation,
    /// After the monitor was called for the end of an epoch or an iteration.
    Checkpoint,
    /// The run is over, or not resumed yet.
    Off,
}

impl Phase {
    /// The phases that a row can have.
    pub(super) const ALL: [Phase; 4] = [Phase::Start, Phase::Training, Phase::Validation, Phase::Checkpoint];

    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Start => "start",
            Phase::Training => "training",
            Phase::Validation => "validation",
            Phase::Checkpoint => "checkpoint",
            Phase::Off => "off",
        }
    }

    pub(super) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The start of a phase in an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mark {
    pub at: f64,
    pub epoch: u64,
    pub phase: Phase,
}

/// The phases of a run in order.
#[derive(Debug, Default)]
pub(super) struct Phases(Vec<Mark>);

/// The shortest phase; shorter ones are merged into the next. There is always some time between two
/// events, and an iteration without a checkpoint must not have a phase for one.
const SHORTEST: f64 = 0.01;

impl Phases {
    /// Records that an epoch and a phase start at `at`.
    pub(super) fn enter(&mut self, at: f64, epoch: u64, phase: Phase) {
        let mut mark = Mark { at, epoch, phase };
        if let Some(last) = self.0.pop_if(|last| last.phase != Phase::Off && at - last.at < SHORTEST) {
            mark.at = last.at;
        }
        if self.0.last().is_none_or(|last| (last.epoch, last.phase) != (epoch, phase)) {
            self.0.push(mark);
        }
    }

    /// The epoch and the phase at a time.
    pub(super) fn at(&self, time: f64) -> (u64, Phase) {
        let after = self.0.partition_point(|mark| mark.at <= time);
        self.0[..after].last().map_or((0, Phase::Start), |mark| (mark.epoch, mark.phase))
    }

    /// The pieces of a time span with constant phase: start, end, epoch, phase.
    pub(super) fn pieces(&self, from: f64, to: f64) -> impl Iterator<Item = (f64, f64, u64, Phase)> + '_ {
        let first = self.0.partition_point(|mark| mark.at <= from);
        let last = self.0.partition_point(|mark| mark.at < to);
        let inside = &self.0[first.min(last)..last];
        let starts = std::iter::once(from).chain(inside.iter().map(|mark| mark.at));
        let ends = inside.iter().map(|mark| mark.at).chain([to]);
        starts.zip(ends).map(|(start, end)| {
            let (epoch, phase) = self.at(start);
            (start, end, epoch, phase)
        })
    }

    /// All phases.
    pub(super) fn marks(&self) -> &[Mark] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_cut_where_something_changes() {
        let mut phases = Phases::default();
        phases.enter(0.0, 0, Phase::Start);
        phases.enter(1.0, 1, Phase::Training);
        phases.enter(3.0, 1, Phase::Validation);
        phases.enter(4.0, 2, Phase::Training);
        let pieces: Vec<_> = phases.pieces(0.5, 4.5).collect();
        let wanted = [
            (0.5, 1.0, 0, Phase::Start),
            (1.0, 3.0, 1, Phase::Training),
            (3.0, 4.0, 1, Phase::Validation),
            (4.0, 4.5, 2, Phase::Training),
        ];
        assert_eq!(pieces, wanted);
        assert_eq!(phases.pieces(1.0, 3.0).collect::<Vec<_>>(), wanted[1..2]);
        assert_eq!(phases.pieces(1.5, 2.0).collect::<Vec<_>>(), [(1.5, 2.0, 1, Phase::Training)]);
        assert_eq!((phases.at(-1.0), phases.at(3.0)), ((0, Phase::Start), (1, Phase::Validation)));
    }

    #[test]
    fn the_time_between_two_events_is_no_phase() {
        let mut phases = Phases::default();
        phases.enter(0.0, 1, Phase::Training);
        for iteration in 1..1000 {
            let at = f64::from(iteration);
            phases.enter(at, 1, Phase::Checkpoint);
            phases.enter(at + if iteration == 500 { 0.3 } else { 0.0001 }, 1, Phase::Training);
        }
        let marks: Vec<_> = phases.marks().iter().map(|mark| (mark.at, mark.phase)).collect();
        assert_eq!(marks, [(0.0, Phase::Training), (500.0, Phase::Checkpoint), (500.3, Phase::Training)]);
    }
}
