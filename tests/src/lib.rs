//! Shared by the tests of the whole project: the reader of golden cases, and the comparison at a
//! case's own tolerance.

#![forbid(unsafe_code)]

pub mod golden;
