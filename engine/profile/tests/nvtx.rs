//! Ranges reach an NVTX profiler nested, with their labels, categories and colours, and across threads:
//! checked with an injection library.

#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hearth_profile::{Category, markers_layer, range, show_ranges, start_range};
use tracing_subscriber::prelude::*;

/// Builds the injection library.
fn injection(folder: &Path) -> PathBuf {
    let library = folder.join("libinjection.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stub_nvtx.c");
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]).arg(&library).arg(source).status();
    assert!(built.expect("a C compiler").success());
    library
}

/// Runs the test below in a process of its own: a process has one profiler.
fn profiled(library: &Path, more: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--ignored", "--exact", "as_a_process", "--nocapture"]).env("NVTX_INJECTION64_PATH", library);
    command.envs(more.iter().copied()).output().expect("it starts")
}

#[test]
fn ranges_arrive_with_their_categories_and_colours() {
    let folder = tempfile::tempdir().expect("a folder");
    let (library, said) = (injection(folder.path()), folder.path().join("said"));
    let output = profiled(&library, &[("STUB_NVTX", &said)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = std::fs::read_to_string(&said).expect("the stub wrote");
    let mut lines = said.lines();
    for category in Category::all() {
        assert_eq!(lines.next(), Some(&*format!("category {} is {}", category.id, category.name)));
    }
    let of = |label: &str, range: &str| {
        let Category { id, colour, .. } = Category::of(range);
        format!("{label}, category {id}, colour {colour:08x}")
    };
    let expected = [
        of("+ iteration", "iteration"),
        of("+ transform Spacing", "transform"),
        "-".to_owned(),
        of("+ layer model.0", "layer"),
        "-".to_owned(),
        of("start upload", "upload"),
        "-".to_owned(),
        "end 1".to_owned(),
    ];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

#[test]
fn a_library_that_is_none_or_refuses_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (missing, none) = (folder.path().join("missing.so"), folder.path().join("none.so"));
    let source = folder.path().join("none.c");
    std::fs::write(&source, "int nothing;\n").expect("written");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&none).arg(&source).status();
    assert!(built.expect("a C compiler").success());
    let library = injection(folder.path());
    for (library, more, word) in [
        (&missing, vec![], "missing.so: "),
        (&none, vec![], "none.so is no library of NVTX"),
        (&library, vec![("STUB_REFUSES", Path::new("1"))], "refuses to start"),
    ] {
        let output = profiled(library, &more);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("NVTX_INJECTION64_PATH=") && said.contains(word), "{said}");
    }
}

#[test]
#[ignore = "what the tests above start, in a process of its own"]
fn as_a_process() {
    if std::env::var_os("NVTX_INJECTION64_PATH").is_none() {
        return;
    }
    tracing_subscriber::registry().with(markers_layer()).init();
    show_ranges("nvtx").unwrap_or_else(|why| panic!("{why}"));
    let upload = range!("iteration", step = 3).in_scope(|| {
        range!("transform", name = "Spacing", case = "c").in_scope(|| ());
        range!("layer", name = "model.0").in_scope(|| ());
        tracing::info_span!(target: "other", "foreign").in_scope(|| ());
        start_range("upload")
    });
    std::thread::spawn(move || drop(upload)).join().expect("it ends");
}
