//! Plugins that are loaded from real libraries: the bundled five, and those under `tests/fixtures`.

#[path = "../../../../tests/clients.rs"]
mod clients;

mod bundled;
mod components;
mod cost;
mod in_c;
#[cfg(target_os = "linux")]
mod isolated;
mod kinds;
mod loading;
mod permissions;
mod powers;
mod profiler;
mod refused;
mod running;
mod scaffolded;
mod searching;
mod stored;
mod toy;
mod troubles;

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};

/// The folder of this test program: `target/release/deps`.
fn here() -> PathBuf {
    let program = std::env::current_exe().expect("a test program has a path");
    program.parent().expect("it lies in a folder").to_owned()
}

fn library(folder: &Path, stem: &str) -> PathBuf {
    let path = folder.join(format!("{DLL_PREFIX}{stem}{DLL_SUFFIX}"));
    assert!(
        path.is_file(),
        "{} is not there: run `cargo test --release -p hearth-plugin-host`, which builds it first (with `--test` or \
         `--lib` alone cargo leaves the examples out)",
        path.display()
    );
    path
}

/// A library from `tests/fixtures`.
fn fixture(name: &str) -> PathBuf {
    library(&here().with_file_name("examples"), &format!("fixture_{name}"))
}

/// A bundled plugin.
fn bundled(name: &str) -> PathBuf {
    library(&here(), &format!("hearth_{name}"))
}

/// A recipe's table.
fn table(text: &str) -> toml::Table {
    text.parse().expect("valid TOML")
}
