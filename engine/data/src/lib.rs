//! hearth-data
