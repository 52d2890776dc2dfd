//! Schedules that end before the run: [`ended`].

use hearth_handlers::Schedule;

/// A rate below this part of the highest one hardly changes a weight.
const HARDLY: f64 = 1e-3;

/// The part of a run that may train with hardly any rate: schedules end near 0 on purpose.
const TAIL: f64 = 0.05;

/// The first epoch, from 1, from which on a schedule stays at a rate that hardly trains, if that is
/// more than the last few epochs; and the rate.
pub(crate) fn ended(schedule: &dyn Schedule, base: f64, epochs: u64) -> Option<(u64, f64)> {
    let rate = |epoch: u64| schedule.rate(base, epoch, Some(epochs)).unwrap_or(f64::NAN);
    let last = rate(epochs.checked_sub(1)?);
    let highest = (0..epochs).map(rate).fold(0.0, f64::max);
    if last > HARDLY * highest || highest <= 0.0 {
        return None;
    }
    let tail = (0..epochs).rev().take_while(|epoch| rate(*epoch) == last).count() as u64;
    let allowed = ((TAIL * epochs as f64) as u64).max(1);
    (tail > allowed).then(|| (epochs - tail + 1, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_handlers::{Constant, OneCycleLr, PolynomialLr, StepLr};

    #[test]
    fn schedules_that_end_early_are_found() {
        let poly = |total_iters| PolynomialLr { total_iters, power: 0.9 };
        assert_eq!(ended(&poly(100), 0.01, 100), None);
        assert_eq!(ended(&poly(99), 0.01, 100), None);
        assert_eq!(ended(&poly(60), 0.01, 100), Some((61, 0.0)));
        assert_eq!(ended(&Constant {}, 0.01, 100), None);
        let step: StepLr = toml::from_str("step_size = 10\ngamma = 0.5").expect("a schedule");
        assert_eq!(ended(&step, 0.01, 100), None);
        let one: OneCycleLr = toml::from_str("max_lr = 0.1\ntotal_steps = 50").expect("a schedule");
        assert_eq!(ended(&one, 0.1, 50), None);
        assert!(ended(&one, 0.1, 80).is_some_and(|(epoch, _)| (49..=51).contains(&epoch)));
    }
}
