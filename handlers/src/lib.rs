//! hearth-handlers
