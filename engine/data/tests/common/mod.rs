//! What the tests of this crate share.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

/// The folder of real files: `HEARTH_REAL_DATA`, or `../shared/data` beside the project.
pub fn real_data() -> PathBuf {
    std::env::var_os("HEARTH_REAL_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from)
}

/// What a client said once, beside the tests.
pub fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name)
}
