//! Python libraries that read the project's files, or compute expected results: MONAI, nibabel,
//! scipy, TensorBoard; and programs that start it, such as `mpirun`. The tests of several crates
//! include this file by `#[path]`.
//!
//! A test that calls a client is named `live_*` and names its twin: a test of the same file that
//! replays the client's recorded answers, and runs everywhere. `tests/skips.rs` checks this for
//! every test.

#![allow(dead_code, reason = "each of the crates uses a part of it")]

use std::ffi::OsStr;
use std::io::Write;
use std::panic::Location;
use std::path::PathBuf;
use std::process::Command;

/// A Python with the modules that a test requests.
pub struct Client {
    python: PathBuf,
    modules: &'static [&'static str],
}

/// The Python of `HEARTH_PYTHON`, if it has all `modules`. Otherwise prints that the caller is
/// skipped, that `twin` replaces it, and how to run it.
///
/// # Panics
/// If one is missing although `HEARTH_REQUIRE_CLIENTS` names all of them (separated by commas), or
/// while something is recorded.
#[track_caller]
pub fn find(modules: &'static [&'static str], twin: &str) -> Option<Client> {
    let missing = match std::env::var_os("HEARTH_PYTHON").map(PathBuf::from) {
        None => "HEARTH_PYTHON is not set".to_owned(),
        Some(python) => {
            let client = Client { python, modules };
            match client.try_run(&format!("import {}", modules.join(", ")), [""; 0]) {
                Ok(_) => return Some(client),
                Err(why) => format!(
                    "{} cannot import it: {}",
                    client.python.display(),
                    why.trim().lines().last().unwrap_or_default()
                ),
            }
        }
    };
    let modules = modules.join(", ");
    let how = format!("Set HEARTH_PYTHON to a Python with {modules} (pip install; skimage is scikit-image)");
    skip(&modules, &missing, &how, twin);
    None
}

/// A program of `PATH`, such as `mpirun.openmpi`. Otherwise prints that the caller is skipped, that
/// `twin` replaces it, and how to run it.
///
/// # Panics
/// If it is missing although `HEARTH_REQUIRE_CLIENTS` names it.
#[track_caller]
pub fn find_program(name: &str, twin: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file());
    if found.is_none() {
        skip(name, "it is not in PATH", &format!("Install {name}"), twin);
    }
    found
}

/// Prints that the caller is skipped.
///
/// # Panics
/// If `HEARTH_REQUIRE_CLIENTS` names all of `asked`, or while something is recorded.
#[track_caller]
fn skip(asked: &str, missing: &str, how: &str, twin: &str) {
    let at = Location::caller();
    let required = std::env::var("HEARTH_REQUIRE_CLIENTS").unwrap_or_default();
    let promised = asked.split(", ").all(|one| required.split(',').any(|name| name.trim() == one));
    assert!(!promised, "HEARTH_REQUIRE_CLIENTS names {asked}, and {missing}. {how}");
    assert!(!recording(), "HEARTH_RECORD asks to record {asked}, and {missing}. {how}");
    let line = format!("skipped: {}:{} asks {asked}; {missing}; {twin} stands in. {how}\n", at.file(), at.line());
    // Written to the handle, which the test runner does not capture.
    std::io::stderr().write_all(line.as_bytes()).expect("standard error");
}

/// Whether to call clients in order to record their answers in the files of the twins.
pub fn recording() -> bool {
    std::env::var_os("HEARTH_RECORD").is_some_and(|value| value == "1")
}

/// How to record the twins of a crate's tests, for messages.
pub fn how_to_record(package: &str) -> String {
    format!(
        "If that is meant, record what the client says: HEARTH_RECORD=1 HEARTH_PYTHON=PYTHON \
         cargo test --release -p {package} -p build-once live_ -- --include-ignored (CONTRIBUTING.md)"
    )
}

impl Client {
    /// Runs a script, and returns its output.
    pub fn run(&self, code: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
        self.try_run(code, arguments).unwrap_or_else(|said| panic!("{}: {said}", self.python.display()))
    }

    fn try_run(&self, code: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<String, String> {
        let output = Command::new(&self.python).arg("-c").arg(code).args(arguments).output();
        let output = output.map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// A command with this Python.
    pub fn command(&self) -> Command {
        Command::new(&self.python)
    }

    /// Names and versions of its modules, for the recorded files.
    pub fn versions(&self) -> String {
        let code = "import importlib, sys\n\
                    print(', '.join(f'{m} {importlib.import_module(m).__version__}' for m in sys.argv[1:]))";
        self.run(code, self.modules).trim().to_owned()
    }
}
