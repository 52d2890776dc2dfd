//! hearth-ensemble
