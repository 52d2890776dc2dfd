//! hearth-checkpoint
