//! hearth-validation
