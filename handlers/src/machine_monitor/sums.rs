//! The use of the machine in total, in each epoch and in each phase: [`Sums`].

use std::collections::BTreeMap;

use super::columns::{self, PACKAGES, Row};
use super::phases::{Phase, Phases};

/// Statistics of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stat {
    pub count: u64,
    pub sum: f64,
    pub min: f64,
    pub max: f64,
    /// The time at which the maximum was measured first.
    pub max_at: f64,
}

/// Time and energy of a part of the run. Energy is `None` if no sensor reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Used {
    pub seconds: f64,
    pub gpu_joules: Option<f64>,
    pub package_joules: Option<f64>,
}

/// Sums over rows, which are not kept.
#[derive(Debug)]
pub(super) struct Sums {
    /// The statistics of each column.
    pub stats: Vec<Option<Stat>>,
    /// The columns with the power of a GPU, and its joules.
    pub gpus: Vec<(usize, Option<f64>)>,
    packages: Option<usize>,
    pub total: Used,
    pub by_epoch: BTreeMap<u64, Used>,
    pub by_phase: BTreeMap<Phase, Used>,
    pub rows: u64,
}

impl Sums {
    /// Sums for a table with these measured columns.
    pub(super) fn new(names: &[String]) -> Self {
        let powers = names.iter().enumerate().filter(|(_, name)| columns::is_gpu_power(name));
        Self {
            stats: vec![None; names.len()],
            gpus: powers.map(|(column, _)| (column, None)).collect(),
            packages: names.iter().position(|name| name == PACKAGES),
            total: Used::default(),
            by_epoch: BTreeMap::new(),
            by_phase: BTreeMap::new(),
            rows: 0,
        }
    }

    /// Adds a row to the statistics of its columns.
    pub(super) fn row(&mut self, row: &Row) {
        self.rows += 1;
        for (stat, value) in self.stats.iter_mut().zip(&row.values) {
            let Some(value) = *value else { continue };
            let stat = stat.get_or_insert(Stat { count: 0, sum: 0.0, min: value, max: value, max_at: row.at });
            stat.count += 1;
            stat.sum += value;
            stat.min = stat.min.min(value);
            if value > stat.max {
                (stat.max, stat.max_at) = (value, row.at);
            }
        }
    }

    /// Adds the time between two consecutive rows. A GPU's power is measured at the rows and
    /// interpolated linearly (the trapezoid rule). The power of the CPUs is the mean since the
    /// previous row, from an energy counter, so it applies to all of the time.
    pub(super) fn between(&mut self, before: &Row, row: &Row, phases: &Phases) {
        let length = row.at - before.at;
        if !(length > 0.0) {
            return;
        }
        for (from, to, epoch, phase) in phases.pieces(before.at, row.at) {
            let seconds = to - from;
            let middle = ((from + to) / 2.0 - before.at) / length;
            let mut used = Used { seconds, gpu_joules: None, package_joules: None };
            for (column, joules) in &mut self.gpus {
                if let (Some(start), Some(end)) = (before.values[*column], row.values[*column]) {
                    // The integral of a straight line is its value at the middle times the length.
                    let energy = (start + (end - start) * middle) * seconds;
                    *joules = Some(joules.unwrap_or(0.0) + energy);
                    used.gpu_joules = Some(used.gpu_joules.unwrap_or(0.0) + energy);
                }
            }
            used.package_joules = self.packages.and_then(|column| row.values[column]).map(|watts| watts * seconds);
            self.total.add(&used);
            self.by_epoch.entry(epoch).or_default().add(&used);
            self.by_phase.entry(phase).or_default().add(&used);
        }
    }
}

impl Used {
    fn add(&mut self, more: &Used) {
        self.seconds += more.seconds;
        for (sum, more) in [(&mut self.gpu_joules, more.gpu_joules), (&mut self.package_joules, more.package_joules)] {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0.0) + more);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["gpu0_power_w", "gpu1_power_w", PACKAGES].map(String::from).to_vec()
    }

    fn sums(rows: &[(f64, [Option<f64>; 3])], phases: &Phases) -> Sums {
        let mut sums = Sums::new(&names());
        let rows = rows.iter().map(|(at, values)| Row {
            part: 1,
            at: *at,
            unix: 0.0,
            epoch: 0,
            phase: Phase::Start,
            values: values.to_vec(),
        });
        let rows: Vec<Row> = rows.collect();
        rows.iter().for_each(|row| sums.row(row));
        rows.windows(2).for_each(|pair| sums.between(&pair[0], &pair[1], phases));
        sums
    }

    fn close(value: Option<f64>, wanted: f64) {
        assert!((value.unwrap() - wanted).abs() < 1e-9 * wanted.abs().max(1.0), "{value:?} is not {wanted}");
    }

    /// A power of `a + b t` integrates to `a t + b t^2 / 2`, wherever rows and epochs divide it.
    #[test]
    fn a_linear_power_is_integrated_exactly() {
        let (a, b, end) = (100.0, 7.0, 10.0);
        let integral = |from: f64, to: f64| a * (to - from) + b * (to * to - from * from) / 2.0;
        let mut phases = Phases::default();
        for (at, epoch, phase) in [
            (0.0, 0, Phase::Start),
            (0.75, 1, Phase::Training),
            (3.1, 1, Phase::Validation),
            (3.6, 1, Phase::Checkpoint),
            (3.7, 2, Phase::Training),
        ] {
            phases.enter(at, epoch, phase);
        }
        // Rows at odd times, none of which is a boundary.
        let rows: Vec<_> = [0.0, 0.5, 1.75, 3.0, 3.05, 7.0, end]
            .map(|t| (t, [Some(a + b * t), None, (t > 0.0).then_some(30.0)]))
            .to_vec();
        let sums = sums(&rows, &phases);
        close(sums.total.gpu_joules, integral(0.0, end));
        close(sums.gpus[0].1, integral(0.0, end));
        assert_eq!(sums.gpus[1], (1, None));
        close(sums.total.package_joules, 30.0 * end);
        for (epoch, from, to) in [(0, 0.0, 0.75), (1, 0.75, 3.7), (2, 3.7, end)] {
            close(sums.by_epoch[&epoch].gpu_joules, integral(from, to));
            close(sums.by_epoch[&epoch].package_joules, 30.0 * (to - from));
        }
        close(sums.by_phase[&Phase::Training].gpu_joules, integral(0.75, 3.1) + integral(3.7, end));
        close(Some(sums.by_phase[&Phase::Validation].seconds), 0.5);
    }

    #[test]
    fn without_a_sensor_there_is_no_energy() {
        let sums = sums(&[(0.0, [None; 3]), (1.0, [None; 3]), (1.0, [None; 3])], &Phases::default());
        assert_eq!(sums.total, Used { seconds: 1.0, gpu_joules: None, package_joules: None });
        assert_eq!(sums.stats, [None; 3]);
    }

    #[test]
    fn a_gpu_that_was_lost_keeps_what_it_used() {
        let rows = [Some(50.0), Some(50.0), None, None].map(|power| [power, Some(10.0), None]);
        let rows: Vec<_> = (0..4).map(|i| (f64::from(i), rows[i as usize])).collect();
        let sums = sums(&rows, &Phases::default());
        assert_eq!(sums.gpus, [(0, Some(50.0)), (1, Some(30.0))]);
        assert_eq!(sums.total.gpu_joules, Some(80.0));
        let stat = sums.stats[0].unwrap();
        assert_eq!((stat.count, stat.max, stat.max_at), (2, 50.0, 0.0));
    }
}
