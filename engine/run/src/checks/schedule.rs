//! The course of a learning rate over a run: [`Course`], [`is_zero`].

use hearth_handlers::Schedule;

/// A constant rate below this part of the highest one hardly changes a weight.
const HARDLY: f64 = 1e-3;

/// A rate below this part of the highest one changes no weight.
const NOTHING: f64 = 1e-6;

/// The part of a run that may train with hardly any rate: schedules end near 0 on purpose.
const TAIL: f64 = 0.05;

/// The maximum number of steps whose rates are compared.
const MOST: usize = 100_000;

/// Whether the rate of every step of a run is 0, or of many if their number is not known.
pub(super) fn is_zero(schedule: &dyn Schedule, base: f64, steps: Option<u64>) -> bool {
    let asked = steps.unwrap_or(MOST as u64).min(MOST as u64);
    // Rates are f32 in the steps of a device. A rate that a plugin does not give is reported by the run.
    (0..asked).all(|step| schedule.rate(base, step, steps).is_ok_and(|rate| rate as f32 == 0.0))
}

/// A course that is seldom meant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Course {
    /// From this epoch on, counted from 1, the rate hardly trains, for more than the last few epochs.
    Ends { epoch: u64, rate: f64 },
    /// The rate rises in the last epoch, and fell in none.
    Rises { from: f64, to: f64 },
    /// The rate falls to its lowest value and rises again from this epoch on, counted from 1.
    Returns { epoch: u64 },
}

impl Course {
    /// The course of a schedule over a run, if it is seldom meant.
    pub fn of(schedule: &dyn Schedule, base: f64, epochs: u64) -> Option<Self> {
        let count = usize::try_from(epochs).ok().filter(|count| (1..=MOST).contains(count))?;
        // Of a single epoch, the next one tells whether the rate rises.
        let rates = (0..=epochs).map(|epoch| schedule.rate(base, epoch, Some(epochs)).unwrap_or(f64::NAN));
        let all: Vec<f64> = rates.collect();
        let (rates, last) = (&all[..count], all[count - 1]);
        let highest = rates.iter().copied().fold(0.0, f64::max);
        if highest <= 0.0 {
            return None;
        }
        if last <= HARDLY * highest {
            let idle = |rate: &&f64| **rate == last || **rate <= NOTHING * highest;
            let tail = rates.iter().rev().take_while(idle).count();
            let allowed = ((TAIL * count as f64) as usize).max(1);
            if tail > allowed {
                return Some(Self::Ends { epoch: (count - tail + 1) as u64, rate: rates[count - tail] });
            }
        }
        let falls = |pair: &[f64]| pair[1] < pair[0];
        let rises = |pair: &[f64]| pair[1] > pair[0];
        match rates.windows(2).position(falls) {
            None => all[..count.max(2)]
                .windows(2)
                .last()
                .is_some_and(rises)
                .then_some(Self::Rises { from: all[0], to: last }),
            Some(fall) => {
                let up = rates[fall + 1..].windows(2).position(rises)?;
                Some(Self::Returns { epoch: (fall + up + 3) as u64 })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_handlers::{Constant, CosineAnnealingLr, ExponentialLr, LinearWarmupCosineAnnealingLr, OneCycleLr};
    use hearth_handlers::{PolynomialLr, StepLr};

    fn read<S: serde::de::DeserializeOwned>(text: &str) -> S {
        toml::from_str(text).expect("a schedule")
    }

    #[test]
    fn schedules_that_end_early_are_found() {
        let poly = |total_iters| PolynomialLr { total_iters, power: 0.9 };
        assert_eq!(Course::of(&poly(100), 0.01, 100), None);
        assert_eq!(Course::of(&poly(99), 0.01, 100), None);
        assert_eq!(Course::of(&poly(60), 0.01, 100), Some(Course::Ends { epoch: 61, rate: 0.0 }));
        assert_eq!(Course::of(&Constant {}, 0.01, 100), None);
        assert_eq!(Course::of(&read::<StepLr>("step_size = 10\ngamma = 0.5"), 0.01, 100), None);
        let one: OneCycleLr = read("max_lr = 0.1\ntotal_steps = 50");
        assert_eq!(Course::of(&one, 0.1, 50), None);
        let found = Course::of(&one, 0.1, 80);
        assert!(matches!(found, Some(Course::Ends { epoch: 49..=51, .. })), "{found:?}");
        // 0.01^3 of the first rate.
        let fast: ExponentialLr = read("gamma = 0.01");
        let found = Course::of(&fast, 1.0, 100);
        assert!(matches!(found, Some(Course::Ends { epoch: 4..=5, .. })), "{found:?}");
        assert_eq!(Course::of(&read::<ExponentialLr>("gamma = 0.95"), 1.0, 100), None);
    }

    #[test]
    fn warm_ups_longer_than_the_run_are_found() {
        let warm: LinearWarmupCosineAnnealingLr = read("warmup_epochs = 11\nmax_epochs = 100");
        assert_eq!(Course::of(&warm, 1.0, 100), None);
        assert_eq!(Course::of(&warm, 1.0, 6), Some(Course::Rises { from: 0.0, to: 0.5 }));
        assert_eq!(Course::of(&warm, 1.0, 1), None);
        assert!(is_zero(&warm, 1.0, Some(1)) && !is_zero(&warm, 1.0, Some(2)));
        let one: OneCycleLr = read("max_lr = 0.1\ntotal_steps = 600");
        assert!(matches!(Course::of(&one, 0.1, 6), Some(Course::Rises { .. })));
    }

    #[test]
    fn schedules_without_a_rate_are_found() {
        let one = |rate: f64| read::<OneCycleLr>(&format!("max_lr = {rate:?}\ntotal_steps = 6"));
        assert!(is_zero(&one(0.0), 1.0, Some(6)) && is_zero(&one(1e-60), 1.0, None));
        assert!(!is_zero(&one(1e-9), 1.0, Some(6)));
        // Its own rates count.
        assert!(!is_zero(&one(0.1), 0.0, None) && is_zero(&Constant {}, 0.0, None));
        assert!(!is_zero(&read::<ExponentialLr>("gamma = 0.0"), 1.0, Some(5)), "the first epoch has a rate");
    }

    #[test]
    fn rates_that_rise_again_are_found() {
        let cosine: CosineAnnealingLr = read("T_max = 10");
        assert_eq!(Course::of(&cosine, 1.0, 10), None);
        // The lowest rate is that of step 10, epoch 11.
        assert_eq!(Course::of(&cosine, 1.0, 11), None);
        assert_eq!(Course::of(&cosine, 1.0, 15), Some(Course::Returns { epoch: 12 }));
    }
}
