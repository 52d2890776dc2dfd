//! Steps and validations on crops that no image has: what they take and how long they last is that of
//! the recipe's own.

mod samples;
mod steps;

pub(super) use samples::{crops, crops_of, integer, narrowed};
pub(super) use steps::{Same, evaluated, paced, stepped};
