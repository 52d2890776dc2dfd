//! hearth-apps
