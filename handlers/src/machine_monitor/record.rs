//! The record of a run: [`Record`], built from rows that are sampled or read back.

use super::columns::Row;
use super::phases::{Phase, Phases};
use super::sums::Sums;
use super::track::Track;

/// A run so far.
#[derive(Debug)]
pub(super) struct Record {
    /// The measured columns.
    pub names: Vec<String>,
    pub phases: Phases,
    pub sums: Sums,
    pub track: Track,
    /// The last row.
    pub last: Option<Row>,
    /// The times at which a process resumed the run.
    pub resumed: Vec<f64>,
}

impl Record {
    /// A record of rows with these measured columns, at an interval of `every` seconds.
    pub(super) fn new(names: Vec<String>, every: f64) -> Self {
        let sums = Sums::new(&names);
        Self { names, phases: Phases::default(), sums, track: Track::new(every), last: None, resumed: Vec::new() }
    }

    /// Adds a row. Rows are in order of time.
    pub(super) fn row(&mut self, row: Row) {
        self.sums.row(&row);
        self.track.row(&row);
        match &self.last {
            // The time between two processes is unknown.
            Some(last) if last.part == row.part => self.sums.between(last, &row, &self.phases),
            Some(_) => self.resumed.push(row.at),
            None => {}
        }
        self.last = Some(row);
    }

    /// Adds a row of an earlier process. The time at which a phase changed between two rows is
    /// unknown; the middle is assumed.
    pub(super) fn earlier(&mut self, row: Row) {
        let (epoch, phase) = (row.epoch, row.phase);
        match &self.last {
            Some(last) if last.part == row.part => {
                if (last.epoch, last.phase) != (epoch, phase) {
                    self.phases.enter((last.at + row.at) / 2.0, epoch, phase);
                }
            }
            Some(_) => {
                self.end();
                self.phases.enter(row.at, epoch, phase);
            }
            None => self.phases.enter(row.at, epoch, phase),
        }
        self.row(row);
    }

    /// Marks the end of the last row's process.
    pub(super) fn end(&mut self) {
        if let Some(last) = &self.last {
            self.phases.enter(last.at, last.epoch, Phase::Off);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(part: u64, at: f64, epoch: u64, power: f64) -> Row {
        Row { part, at, unix: 0.0, epoch, phase: Phase::Training, values: vec![Some(power)] }
    }

    #[test]
    fn what_is_between_two_processes_is_not_counted() {
        let mut record = Record::new(vec!["gpu0_power_w".to_owned()], 1.0);
        for earlier in [row(1, 0.0, 1, 10.0), row(1, 2.0, 2, 10.0), row(2, 3.0, 2, 70.0), row(2, 4.0, 2, 70.0)] {
            record.earlier(earlier);
        }
        record.end();
        assert_eq!((record.sums.total.seconds, record.sums.total.gpu_joules), (3.0, Some(90.0)));
        // Epoch 2 began between the first two rows, and is repeated.
        assert_eq!(record.sums.by_epoch[&1].gpu_joules, Some(10.0));
        assert_eq!(record.sums.by_epoch[&2].gpu_joules, Some(80.0));
        assert_eq!(record.resumed, [3.0]);
        assert_eq!((record.phases.at(2.5).1, record.phases.at(3.5).1), (Phase::Off, Phase::Training));
    }
}
