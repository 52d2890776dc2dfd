//! Numbers that handlers hand out for curves, kept until somebody draws them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// One number of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct CurvePoint {
    /// The curve.
    pub tag: String,
    /// The number.
    pub value: f64,
    /// The trainer's epoch when it was handed out.
    pub epoch: u64,
    /// The trainer's iteration when it was handed out.
    pub iteration: u64,
}

/// The newest numbers of all curves; clones share it, so a handler may hold one and drain it.
#[derive(Clone, Debug, Default)]
pub struct Curves(Arc<Mutex<VecDeque<CurvePoint>>>);

/// What nobody drains is not to fill the memory of a long run.
const KEPT: usize = 16_384;

impl Curves {
    pub(crate) fn push(&self, point: CurvePoint) {
        tracing::trace!(tag = point.tag, value = point.value, iteration = point.iteration, "scalar");
        let mut points = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if points.len() == KEPT {
            points.pop_front();
        }
        points.push_back(point);
    }

    /// Takes what has come since the last call, oldest first; of more than 16384 points the newest.
    pub fn drain(&self) -> Vec<CurvePoint> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }
}
