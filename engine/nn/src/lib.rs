//! hearth-nn
