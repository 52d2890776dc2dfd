//! How much and how soon a recipe learns within some epochs, from three seeds.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use hearth_engine::RunEnd;
use hearth_files::Scratch;

use super::Args;
use crate::error::{Context, Failure, Outcome};
use crate::interrupt;
use crate::note;
use crate::recipe::Document;
use crate::run::{Plan, Session};

/// Seeds of the compared trainings.
const SEEDS: [u64; 3] = [0, 1, 2];

/// The approximate number of validations in a training.
const LOOKS: u64 = 8;

/// The key metric of several trainings of one recipe.
#[derive(Clone, Debug)]
pub struct Learned {
    /// The name of the metric.
    pub metric: String,
    values: Vec<f64>,
    /// The values by epoch with a validation, one per training.
    course: BTreeMap<u64, Vec<f64>>,
    higher: bool,
}

impl Learned {
    /// The mean of the trainings' final values.
    pub fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }

    /// The square of the mean's standard error.
    fn variance(&self) -> f64 {
        let (mean, count) = (self.mean(), self.values.len() as f64);
        self.values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0) / count
    }

    /// The first epoch at which the mean of the trainings reaches the final value of another recipe.
    pub fn reached(&self, other: &Self) -> Option<u64> {
        let sign = if self.higher { 1.0 } else { -1.0 };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let all = self.course.iter().filter(|(_, values)| values.len() == self.values.len());
        all.map(|(epoch, values)| (*epoch, mean(values)))
            .find(|(_, mean)| sign * (mean - other.mean()) >= 0.0)
            .map(|(epoch, _)| epoch)
    }

    /// Whether it is no worse than another by more than twice the standard error of the difference, or
    /// by a hundredth, which is within the variation between seeds.
    pub fn is_as_good_as(&self, other: &Self) -> bool {
        let sign = if self.higher { 1.0 } else { -1.0 };
        let noise = f64::max(2.0 * (self.variance() + other.variance()).sqrt(), 0.01);
        sign * (self.mean() - other.mean()) >= -noise
    }
}

impl fmt::Display for Learned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each: Vec<String> = self.values.iter().map(|value| format!("{value:.4}")).collect();
        write!(f, "{:.4} ({})", self.mean(), each.join(", "))
    }
}

/// Trains `epochs` epochs from each seed, with some validations, the last one at the end.
///
/// # Errors
/// Errors of a training, and a recipe without validation.
pub fn learned(args: &Args, document: &Document, epochs: u64) -> Outcome<Learned> {
    let mut found: Option<Learned> = None;
    let interval =
        (1..=epochs).find(|interval| epochs.is_multiple_of(*interval) && interval * LOOKS >= epochs).unwrap_or(epochs);
    for seed in SEEDS {
        let mut document = document.clone();
        for set in [
            format!("training.epochs={epochs}"),
            format!("training.val_interval={interval}"),
            format!("training.seed={seed}"),
        ] {
            document.set(&set)?;
        }
        let folder = Scratch::new_in(args.out(), ".trying-")
            .while_doing(|| format!("cannot write into {}", args.out().display()))?;
        let mut plan = Plan::new(document)?;
        plan.silent = true;
        plan.recipe.profile = None;
        let mut session = Session::new(plan, args.data(), &args.plugins)?;
        session.start(&folder.path().join("run"))?;
        interrupt::running(session.interrupt_flag());
        let finished = session.run();
        interrupt::over();
        let finished = finished?;
        if let RunEnd::Interrupted(_) = finished.end {
            return Err(Failure::interrupted());
        }
        let (metric, value, higher) = finished
            .key
            .ok_or_else(|| Failure::new("--check: the recipe validates nothing that trainings could be compared by"))?;
        note!("  seed {seed}: {metric} {value:.4}");
        let learned = found.get_or_insert_with(|| Learned {
            metric: metric.clone(),
            values: Vec::new(),
            course: BTreeMap::new(),
            higher,
        });
        learned.values.push(value);
        for (epoch, value) in course(&folder.path().join("run"), &metric)? {
            learned.course.entry(epoch).or_default().push(value);
        }
    }
    found.ok_or_else(|| Failure::new("--check: nothing was trained"))
}

/// The validations of a run: epochs, and values of the metric.
fn course(run: &Path, metric: &str) -> Outcome<Vec<(u64, f64)>> {
    let path = run.join("metrics.csv");
    let text = hearth_files::read_to_string(&path).while_doing(|| format!("cannot read {}", path.display()))?;
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<&str>>());
    let heads = lines.next().unwrap_or_default();
    let place = |name: &str| heads.iter().position(|head| *head == name);
    let (Some(epoch), Some(value)) = (place("epoch"), place(metric)) else { return Ok(Vec::new()) };
    let row = |cells: Vec<&str>| Some((cells.get(epoch)?.parse().ok()?, cells.get(value)?.parse().ok()?));
    Ok(lines.filter_map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: [f64; 3], higher: bool) -> Learned {
        let course = BTreeMap::from([(1, vec![0.2; 3]), (2, vec![0.5; 3]), (3, values.to_vec())]);
        Learned { metric: "m".to_owned(), values: values.to_vec(), course, higher }
    }

    #[test]
    fn what_another_ended_with_is_reached_or_not() {
        let other = of([0.45, 0.5, 0.52], true);
        assert_eq!(of([0.9, 0.91, 0.92], true).reached(&other), Some(2));
        assert_eq!(other.reached(&of([0.9, 0.91, 0.92], true)), None);
        assert_eq!(other.reached(&other), Some(2));
        // An error metric decreases.
        assert_eq!(of([0.1, 0.1, 0.1], false).reached(&of([0.15, 0.16, 0.15], false)), Some(3));
    }

    #[test]
    fn noise_is_no_loss_and_a_loss_is_none_of_the_noise() {
        let before = of([0.90, 0.91, 0.92], true);
        assert!(of([0.89, 0.91, 0.92], true).is_as_good_as(&before));
        assert!(of([0.95, 0.95, 0.95], true).is_as_good_as(&before));
        assert!(!of([0.80, 0.81, 0.82], true).is_as_good_as(&before));
        // Seeds with a large variation show little.
        assert!(of([0.70, 0.80, 0.95], true).is_as_good_as(&of([0.75, 0.85, 0.98], true)));
        // An error metric increases where a score decreases.
        let error = of([0.10, 0.11, 0.12], false);
        assert!(of([0.05, 0.05, 0.05], false).is_as_good_as(&error));
        assert!(!of([0.20, 0.21, 0.22], false).is_as_good_as(&error));
    }
}
