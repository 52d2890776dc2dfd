//! The progress of a run, and the remaining time.

use super::{Epoch, Run};

/// The number of newest epochs from which the duration of an epoch is estimated: in most cases this
/// covers the interval between validations.
const NEWEST: usize = 20;

/// The progress of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// The number of completed epochs.
    pub epochs: u64,
    /// The number of epochs in the recipe.
    pub of: Option<u64>,
    /// The newest step in the files.
    pub iteration: u64,
    /// The number of steps in an epoch, once one is complete.
    pub epoch_length: Option<u64>,
    /// The newest loss and its step.
    pub loss: Option<(f64, u64)>,
    /// The learning rate of the newest epoch.
    pub learning_rate: Option<f64>,
    /// The mean duration in seconds of the newest epochs, with their validations.
    pub seconds_per_epoch: Option<f64>,
    /// The estimated seconds until the last epoch is complete, at the speed of the newest epochs.
    pub left: Option<f64>,
    /// The newest value of each metric, the key metric first.
    pub metrics: Vec<Latest>,
    /// The newest sample of each column of `machine.csv`.
    pub machine: Vec<(String, f64)>,
}

/// The newest value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Latest {
    /// Its name.
    pub name: String,
    /// The value.
    pub value: f64,
    /// The epoch in which it was measured.
    pub epoch: u64,
    /// For the key metric: its best value and epoch.
    pub best: Option<(f64, u64)>,
}

impl Progress {
    /// The progress of a run, from its files.
    pub fn of(run: &Run) -> Self {
        let last = run.epochs.last();
        let (epochs, steps) = last.map_or((0, 0), |epoch| (epoch.epoch, epoch.iteration));
        let iteration = run.steps.last().map_or(0, |step| step.iteration).max(steps);
        let epoch_length = last.filter(|epoch| epoch.epoch > 0).map(|epoch| epoch.iteration.div_ceil(epoch.epoch));
        let of = run.max_epochs();
        let seconds_per_epoch = mean(run.epochs.iter().rev().take(NEWEST).filter_map(seconds));
        let part = epoch_length.map_or(0.0, |length| (iteration - steps) as f64 / length.max(1) as f64);
        let rest = of.map(|of| (of.saturating_sub(epochs) as f64 - part.min(1.0)).max(0.0));
        let left = seconds_per_epoch.zip(rest).map(|(seconds, rest)| seconds * rest);
        let of_step = run.steps.last().map(|step| (step.loss, step.iteration));
        let of_epoch = last.and_then(|epoch| Some((epoch.loss?, epoch.iteration)));
        Self {
            epochs,
            of,
            iteration,
            epoch_length,
            loss: of_step.or(of_epoch),
            learning_rate: last.and_then(|epoch| epoch.learning_rate),
            seconds_per_epoch,
            left: left.filter(|_| run.state.is_running()),
            metrics: metrics(run),
            machine: samples(run),
        }
    }

    /// The epoch that the newest step belongs to.
    pub fn epoch(&self) -> u64 {
        let begun = self.epoch_length.is_some_and(|length| self.iteration > self.epochs * length);
        let asked = self.of.unwrap_or(u64::MAX);
        if self.epochs == 0 || begun { (self.epochs + 1).min(asked) } else { self.epochs }
    }

    /// The completed share of the run, from 0 to 1.
    pub fn done(&self) -> Option<f64> {
        let of = self.of.filter(|of| *of > 0)? as f64;
        let epochs = self.epoch_length.filter(|length| *length > 0).map(|length| self.iteration as f64 / length as f64);
        Some((epochs.unwrap_or(self.epochs as f64) / of).clamp(0.0, 1.0))
    }
}

fn seconds(epoch: &Epoch) -> Option<f64> {
    epoch.wall_seconds.or(epoch.seconds).filter(|seconds| seconds.is_finite())
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn metrics(run: &Run) -> Vec<Latest> {
    let key = run.key_metric();
    let mut found: Vec<Latest> = Vec::new();
    for epoch in run.epochs.iter().rev() {
        for (name, value) in &epoch.metrics {
            if !found.iter().any(|known| known.name == *name) {
                let best = run.best().filter(|_| Some(name.as_str()) == key);
                found.push(Latest { name: name.clone(), value: *value, epoch: epoch.epoch, best });
            }
        }
    }
    found.sort_by_key(|metric| Some(metric.name.as_str()) != key);
    found
}

fn samples(run: &Run) -> Vec<(String, f64)> {
    let columns = run.machine.iter().flat_map(|machine| &machine.columns);
    columns.filter_map(|column| Some((column.name.clone(), column.points.last()?.1))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Step;
    use super::*;

    fn run() -> Run {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("recipe.toml"), "[training]\nepochs = 10\n").expect("a recipe");
        Run::read(folder.path()).expect("a run")
    }

    #[test]
    fn a_run_without_an_epoch_knows_its_number() {
        let progress = Progress::of(&run());
        assert_eq!((progress.epochs, progress.of, progress.epoch(), progress.left), (0, Some(10), 1, None));
        assert_eq!(progress.done(), Some(0.0));
    }

    #[test]
    fn what_is_left_is_that_of_the_newest_epochs_and_their_validation() {
        let mut run = run();
        run.state = super::super::State::Running(String::new());
        let epoch = |epoch: u64, wall| Epoch {
            epoch,
            iteration: epoch * 8,
            seconds: Some(1.0),
            wall_seconds: wall,
            metrics: if epoch == 2 { vec![("other".into(), 5.0), ("dice".into(), 0.5)] } else { Vec::new() },
            ..Epoch::default()
        };
        run.epochs = vec![epoch(1, Some(2.0)), epoch(2, Some(4.0)), epoch(3, None)];
        run.steps = vec![Step { iteration: 28, epoch: 4, loss: 0.25 }];
        (run.key_of_log, run.best_of_log) = (Some(("dice".into(), true)), Some((0.5, 2)));
        let progress = Progress::of(&run);
        // (2 + 4 + 1) / 3 seconds for each of 6.5 epochs.
        assert!((progress.left.expect("known") - 7.0 / 3.0 * 6.5).abs() < 1e-9, "{progress:?}");
        assert_eq!((progress.epoch(), progress.loss), (4, Some((0.25, 28))));
        assert_eq!(progress.done(), Some(0.35));
        let names: Vec<&str> = progress.metrics.iter().map(|metric| metric.name.as_str()).collect();
        assert_eq!((names, progress.metrics[0].best), (vec!["dice", "other"], Some((0.5, 2))));
    }
}
