//! hearth-train
