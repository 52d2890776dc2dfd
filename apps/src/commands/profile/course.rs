//! What a recipe learns in some epochs, from three seeds.

use std::fmt;

use hearth_engine::RunEnd;

use super::Args;
use crate::error::{Context, Failure, Outcome};
use crate::interrupt;
use crate::note;
use crate::recipe::Document;
use crate::run::{Plan, Session};

/// Seeds of the trainings that are compared.
const SEEDS: [u64; 3] = [0, 1, 2];

/// The key metric of several trainings of one recipe.
#[derive(Clone, Debug)]
pub struct Learned {
    /// Its name.
    pub metric: String,
    values: Vec<f64>,
    higher: bool,
}

impl Learned {
    fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }

    /// The square of the mean's standard error.
    fn variance(&self) -> f64 {
        let (mean, count) = (self.mean(), self.values.len() as f64);
        self.values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0) / count
    }

    /// Whether it is no worse than another by more than twice the standard error of the difference,
    /// or by a hundredth, which seeds alone make.
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

/// Trains so many epochs from each seed, and validates at the end.
///
/// # Errors
/// As a training, and where the recipe validates nothing.
pub fn learned(args: &Args, document: &Document, epochs: u64) -> Outcome<Learned> {
    let mut found: Option<Learned> = None;
    for seed in SEEDS {
        let mut document = document.clone();
        for set in [
            format!("training.epochs={epochs}"),
            format!("training.val_interval={epochs}"),
            format!("training.seed={seed}"),
        ] {
            document.set(&set)?;
        }
        let folder =
            tempfile::tempdir_in(&args.out).while_doing(|| format!("cannot write into {}", args.out.display()))?;
        let mut plan = Plan::new(document)?;
        plan.silent = true;
        let mut session = Session::new(plan, &args.data, &args.plugins)?;
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
        let learned = found.get_or_insert_with(|| Learned { metric, values: Vec::new(), higher });
        learned.values.push(value);
    }
    found.ok_or_else(|| Failure::new("--check: nothing was trained"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: [f64; 3], higher: bool) -> Learned {
        Learned { metric: "m".to_owned(), values: values.to_vec(), higher }
    }

    #[test]
    fn noise_is_no_loss_and_a_loss_is_none_of_the_noise() {
        let before = of([0.90, 0.91, 0.92], true);
        assert!(of([0.89, 0.91, 0.92], true).is_as_good_as(&before));
        assert!(of([0.95, 0.95, 0.95], true).is_as_good_as(&before));
        assert!(!of([0.80, 0.81, 0.82], true).is_as_good_as(&before));
        // Seeds that differ much say little.
        assert!(of([0.70, 0.80, 0.95], true).is_as_good_as(&of([0.75, 0.85, 0.98], true)));
        // An error grows where a score falls.
        let error = of([0.10, 0.11, 0.12], false);
        assert!(of([0.05, 0.05, 0.05], false).is_as_good_as(&error));
        assert!(!of([0.20, 0.21, 0.22], false).is_as_good_as(&error));
    }
}
