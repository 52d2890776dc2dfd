//! hearth-tests
