//! hearth-kernels
