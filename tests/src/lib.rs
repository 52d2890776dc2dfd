//! What the tests of the whole project share: the golden case reader, and the comparison at a
//! case's own tolerance.
pub mod golden;
