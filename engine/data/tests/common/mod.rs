//! What the tests of this crate share.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

/// The folder of real files: `HEARTH_REAL_DATA`, or `../shared/data` beside the project.
pub fn real_data() -> PathBuf {
    std::env::var_os("HEARTH_REAL_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from)
}

/// A Python with nibabel, where there is one.
pub fn python() -> Option<PathBuf> {
    std::env::var_os("HEARTH_PYTHON").map(PathBuf::from)
}

/// Runs Python and gives what it printed.
pub fn run_python(python: &Path, code: &str, arguments: &[&Path]) -> String {
    let out = std::process::Command::new(python).arg("-c").arg(code).args(arguments).output().expect("python starts");
    assert!(out.status.success(), "python: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}
