//! hearth-stats
