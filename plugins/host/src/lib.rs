//! hearth-plugin-host
