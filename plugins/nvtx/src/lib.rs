//! hearth-nvtx
