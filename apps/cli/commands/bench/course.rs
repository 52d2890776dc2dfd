//! The course of a training towards a target.

use serde::{Deserialize, Serialize};

/// A validation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The number of finished epochs.
    pub epoch: u64,
    /// Seconds since the start, with preparation and validations.
    pub seconds: f64,
    /// The value of the key metric; `None` if it is non-finite.
    pub value: Option<f64>,
}

/// The validations so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// All validations, in order.
    pub points: Vec<Point>,
}

impl Course {
    /// Adds a validation; returns whether it reaches the target.
    pub fn add(&mut self, epoch: u64, seconds: f64, value: f64, target: f64) -> bool {
        self.points.push(Point { epoch, seconds, value: value.is_finite().then_some(value) });
        value >= target
    }

    /// The first validation that reaches a target.
    pub fn hit(&self, target: f64) -> Option<Point> {
        self.points.iter().copied().find(|point| point.value.is_some_and(|value| value >= target))
    }

    /// The best value; 0 if there is none.
    pub fn best(&self) -> f64 {
        self.points.iter().filter_map(|point| point.value).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first validation at or above the target counts, not the best one.
    #[test]
    fn the_target_is_reached_at_the_first_validation_at_or_above_it() {
        let mut course = Course::default();
        let values = [(2, 1.0, 0.1), (4, 2.0, f64::NAN), (6, 3.0, 0.8), (8, 4.0, 0.7), (10, 5.0, 0.9)];
        let reached = values.map(|(epoch, seconds, value)| course.add(epoch, seconds, value, 0.8));
        assert_eq!(reached, [false, false, true, false, true]);
        assert_eq!(course.hit(0.8).map(|point| (point.epoch, point.seconds)), Some((6, 3.0)));
        assert_eq!((course.hit(0.95), course.best()), (None, 0.9));
        assert_eq!((Course::default().hit(0.0), Course::default().best()), (None, 0.0));
    }
}
