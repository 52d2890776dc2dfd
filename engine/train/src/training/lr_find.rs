//! Finds a learning rate: the range test of Smith, as in MONAI's `LearningRateFinder`.

use std::fmt;

use derive_setters::Setters;
use hearth_engine::{BoxError, State};
use hearth_nn::networks::Network;
use serde::{Deserialize, Serialize};

use crate::batch::feed::Placement;
use crate::training::step::Training;

/// The form in which the learning rate rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepMode {
    /// By the same factor in each step.
    #[default]
    Exp,
    /// By the same amount in each step.
    Linear,
}

impl fmt::Display for StepMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StepMode::Exp => "exp",
            StepMode::Linear => "linear",
        })
    }
}

/// A learning rate range test (Smith, <https://arxiv.org/abs/1506.01186>): the rate rises from step
/// to step until the loss diverges. The rate where the loss falls fastest is a good one. Names and
/// defaults are MONAI's. [`SupervisedTrainer::find_learning_rate`] runs it.
///
/// [`SupervisedTrainer::find_learning_rate`]: crate::SupervisedTrainer::find_learning_rate
///
/// ```
/// let test = hearth_train::RangeTest::default().num_iter(3).start_lr(0.01).end_lr(1.0);
/// test.check()?;
/// assert!((test.lr(0) - 0.01).abs() < 1e-9 && (test.lr(2) - 1.0).abs() < 1e-9);
/// # Ok::<(), hearth_train::RangeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct RangeTest {
    /// The first learning rate.
    pub start_lr: f64,
    /// The last learning rate, unless the loss diverges earlier.
    pub end_lr: f64,
    /// The number of steps, at least 2.
    pub num_iter: usize,
    /// How the rate rises.
    pub step_mode: StepMode,
    /// The weight of the newest loss in the smoothed one; 0 switches smoothing off. Less than 1.
    pub smooth_f: f64,
    /// The test ends when the smoothed loss is this many times the best one.
    pub diverge_th: f64,
}

impl Default for RangeTest {
    fn default() -> Self {
        Self { start_lr: 1e-7, end_lr: 10.0, num_iter: 100, step_mode: StepMode::Exp, smooth_f: 0.05, diverge_th: 5.0 }
    }
}

/// One step of a range test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RangePoint {
    /// The learning rate of the step.
    pub lr: f64,
    /// The loss of its batches before the step, smoothed.
    pub loss: f64,
    /// The same loss without smoothing.
    pub raw_loss: f64,
}

/// The result of a range test.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RangeResult {
    /// A point for each step, in order of rising rates.
    pub points: Vec<RangePoint>,
    /// Whether the loss diverged before the last step.
    pub diverged: bool,
}

/// The reason why a range test failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RangeError {
    /// An invalid option.
    #[error("{name} is {value}: expected {expected}")]
    Option {
        /// The option's name.
        name: &'static str,
        /// The option's value.
        value: String,
        /// The expected values.
        expected: &'static str,
    },
    /// The loader returned no batch.
    #[error("the training data has no batch")]
    NoData,
    /// A step failed.
    #[error("step {step} of the range test, at learning rate {lr:.3e}")]
    Step {
        /// The step's number, from 1.
        step: usize,
        /// The learning rate of the step.
        lr: f64,
        /// The cause.
        #[source]
        source: BoxError,
    },
}

impl RangeTest {
    /// Checks the options.
    ///
    /// # Errors
    /// The first invalid option is reported.
    pub fn check(&self) -> Result<(), RangeError> {
        let rate = |rate: f64| rate.is_finite() && rate > 0.0;
        let wrong =
            |name, value: &dyn ToString, expected| Err(RangeError::Option { name, value: value.to_string(), expected });
        match self {
            Self { start_lr, .. } if !rate(*start_lr) => wrong("start_lr", start_lr, "a number above 0"),
            Self { end_lr, start_lr, .. } if !(rate(*end_lr) && end_lr > start_lr) => {
                wrong("end_lr", end_lr, "a number above start_lr")
            }
            Self { num_iter, .. } if *num_iter < 2 => wrong("num_iter", num_iter, "at least 2"),
            Self { smooth_f, .. } if !(0.0..1.0).contains(smooth_f) => {
                wrong("smooth_f", smooth_f, "0 or more, less than 1")
            }
            Self { diverge_th, .. } if diverge_th.is_nan() || *diverge_th <= 1.0 => {
                wrong("diverge_th", diverge_th, "a number above 1")
            }
            _ => Ok(()),
        }
    }

    /// The learning rate of a step, counted from 0.
    pub fn lr(&self, step: usize) -> f64 {
        let part = step as f64 / (self.num_iter - 1).max(1) as f64;
        match self.step_mode {
            StepMode::Exp => self.start_lr * (self.end_lr / self.start_lr).powf(part),
            StepMode::Linear => self.start_lr + part * (self.end_lr - self.start_lr),
        }
    }
}

impl RangeResult {
    /// The point where the loss falls fastest from step to step, skipping some points at the start
    /// and the end. The very last point never counts (MONAI's `get_steepest_gradient`). `None`
    /// where fewer than two points are left.
    pub fn steepest_gradient(&self, skip_start: usize, skip_end: usize) -> Option<RangePoint> {
        let end = self.points.len().checked_sub(skip_end + 1)?;
        let points = self.points.get(skip_start..end).filter(|points| points.len() >= 2)?;
        // Central differences in the middle, one-sided ones at the ends (numpy.gradient).
        let slope = |i: usize| {
            let (before, after) = (i.saturating_sub(1), (i + 1).min(points.len() - 1));
            (points[after].loss - points[before].loss) / (after - before) as f64
        };
        (0..points.len()).min_by(|a, b| slope(*a).total_cmp(&slope(*b))).map(|i| points[i])
    }

    /// Records the loss of the next step; returns whether to continue.
    fn push(&mut self, options: &RangeTest, lr: f64, raw_loss: f64) -> bool {
        if !raw_loss.is_finite() {
            self.diverged = true;
            return false;
        }
        let loss = match self.points.last() {
            Some(last) => match options.smooth_f {
                0.0 => raw_loss,
                factor => factor * raw_loss + (1.0 - factor) * last.loss,
            },
            None => raw_loss,
        };
        self.points.push(RangePoint { lr, loss, raw_loss });
        let best = self.points.iter().map(|point| point.loss).fold(f64::INFINITY, f64::min);
        self.diverged = loss > options.diverge_th * best;
        !self.diverged
    }
}

/// Runs the test on a trainer's network and data, and restores everything.
pub(crate) fn run<N: Network>(
    work: &mut Training<N>,
    options: &RangeTest,
    watch: impl FnMut(&RangePoint),
) -> Result<RangeResult, RangeError> {
    options.check()?;
    let (before, held) = (work.learner.clone(), work.feed.hold());
    let (companions, notes) = (work.step.as_ref().map(|step| step.hold()), work.notes.clone());
    work.learner.pending = None;
    let result = ramp(work, options, watch);
    work.learner = before;
    work.feed.put_back(held);
    if let (Some(step), Some(companions)) = (&mut work.step, companions) {
        step.put_back(companions);
    }
    work.notes = notes;
    result
}

fn ramp<N: Network>(
    work: &mut Training<N>,
    options: &RangeTest,
    mut watch: impl FnMut(&RangePoint),
) -> Result<RangeResult, RangeError> {
    let mut state = State::new("lr_find");
    state.seed = work.options.seed;
    let mut result = RangeResult::default();
    for step in 0..options.num_iter {
        let lr = options.lr(step);
        work.learner.learning_rate = lr;
        let loss = batches(work, &mut state).map_err(|source| match source.downcast::<RangeError>() {
            Ok(error) => *error,
            Err(source) => RangeError::Step { step: step + 1, lr, source },
        })?;
        let goes_on = result.push(options, lr, loss);
        if let Some(point) = result.points.last().filter(|_| loss.is_finite()) {
            watch(point);
        }
        if !goes_on {
            break;
        }
    }
    Ok(result)
}

/// Runs the batches of one step, and the step. Returns the mean of their losses.
fn batches<N: Network>(work: &mut Training<N>, state: &mut State) -> Result<f64, BoxError> {
    let count = work.options.accumulate;
    let mut total = 0.0;
    for _ in 0..count {
        state.iteration += 1;
        fetch(work, state)?;
        let loss = work.loss_of_batch(state)?;
        let gradients = work.backward(&loss)?;
        let value: f32 = loss.without_autodiff().try_into_scalar().map_err(|e| BoxError::from(e.to_string()))?;
        total += f64::from(value);
        // A non-finite loss ends the test; its gradients no longer matter.
        work.gather(gradients)?;
    }
    Ok(total / count as f64)
}

/// Fetches the next batch; from the next pass where this one is exhausted.
fn fetch<N: Network>(work: &mut Training<N>, state: &mut State) -> Result<(), BoxError> {
    let spatial_dims = work.learner.network()?.spatial_dims();
    for fresh in [false, true] {
        if fresh || !state.pass.open {
            (state.pass.number, state.pass.open) = (state.pass.number + 1, true);
            work.feed.restart(state, 0);
        }
        let options = &work.options;
        let (device, image_key, label_key) = (&options.device, &*options.image_key, &*options.label_key);
        if work.feed.fetch(&Placement { device, spatial_dims, image_key, label_key })? {
            return Ok(());
        }
    }
    Err(RangeError::NoData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(losses: &[f64]) -> RangeResult {
        let points =
            losses.iter().enumerate().map(|(i, loss)| RangePoint { lr: i as f64, loss: *loss, raw_loss: *loss });
        RangeResult { points: points.collect(), diverged: false }
    }

    /// MONAI's finder returns these indices for these losses.
    #[test]
    fn the_loss_falls_fastest_where_numpy_says() {
        let found = curve(&[1.0, 0.9, 0.7, 0.3, 0.25, 0.4, 0.9]);
        let at = |skip_start, skip_end| found.steepest_gradient(skip_start, skip_end).map(|point| point.lr);
        assert_eq!(at(0, 0), Some(2.0));
        assert_eq!(at(3, 0), Some(3.0));
        assert_eq!(at(0, 4), Some(0.0));
        assert_eq!(at(0, 5), None);
        assert_eq!(at(6, 0), None);
        assert_eq!(at(0, 100), None);
        assert_eq!(curve(&[]).steepest_gradient(0, 0), None);
    }

    #[test]
    fn a_loss_that_is_no_number_ends_the_test() {
        let (mut found, options) = (RangeResult::default(), RangeTest::default());
        assert!(found.push(&options, 1e-3, 1.0));
        assert!(!found.push(&options, 1e-2, f64::NAN));
        assert!(found.diverged && found.points.len() == 1);
    }
}
