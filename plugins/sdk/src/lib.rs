//! hearth-plugin
