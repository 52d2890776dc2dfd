//! Helpers shared by the tests of this crate.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

/// The folder of real files: `HEARTH_REAL_DATA`, or `../shared/data` next to the project.
pub fn real_data() -> PathBuf {
    std::env::var_os("HEARTH_REAL_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from)
}

/// Recorded answers of a client, next to the tests.
pub fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name)
}
