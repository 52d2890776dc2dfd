//! Steps and validations on crops that no image has: what they take and how long they last is that of
//! the recipe's own.

pub(crate) mod samples;
pub(crate) mod steps;
