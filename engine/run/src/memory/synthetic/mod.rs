//! Steps and validations on synthetic crops, which take the same memory and time as those of the
//! recipe's own.

pub(crate) mod samples;
pub(crate) mod steps;
