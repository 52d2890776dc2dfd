//! Ranges reach roctx nested and with their labels, checked with a stub library.

#![cfg(unix)]

use std::process::Command;

use hearth_profile::{Nvtx, Roctx, markers_layer, range, show_ranges, start_range};
use tracing_subscriber::prelude::*;

#[test]
fn ranges_arrive_at_roctx() {
    let folder = tempfile::tempdir().expect("a folder");
    let (library, said) = (folder.path().join("libroctx.so"), folder.path().join("said"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stub_roctx.c");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(built.expect("a C compiler").success());
    // The stub reads its variable itself, and a process has one subscriber, so this test has its
    // own process.
    let status = Command::new(std::env::current_exe().expect("this test"))
        .args(["--ignored", "--exact", "as_a_process"])
        .env("STUB_ROCTX", &said)
        .env("HEARTH_ROCTX", &library)
        .status();
    assert!(status.expect("it starts").success());
    let said = std::fs::read_to_string(&said).expect("the stub wrote");
    let expected = "+ iteration\n+ transform Spacing\n-\n+ handler \"a b\"\n-\nstart upload\n-\nstop\n";
    assert_eq!(said, expected);

    let missing = Roctx::of(folder.path().join("none.so").as_os_str()).expect_err("no file").to_string();
    assert!(missing.contains("none.so"), "{missing}");
    let other = show_ranges("nsight").expect_err("no such kind").to_string();
    assert!(other.contains("give nvtx or roctx"), "{other}");
    assert!(Nvtx::open().is_ok(), "without a profiler there is nothing to open");
}

#[test]
#[ignore = "what the tests above start, in a process of its own"]
fn as_a_process() {
    if std::env::var_os("STUB_ROCTX").is_none() {
        return;
    }
    tracing_subscriber::registry().with(markers_layer()).init();
    drop(start_range("before"));
    assert!(range!("before").is_disabled(), "no profiler was chosen");
    show_ranges("roctx").expect("the stub");
    let upload = range!("iteration", step = 3).in_scope(|| {
        range!("transform", name = "Spacing", case = "c").in_scope(|| ());
        range!("handler", name = ?"a b").in_scope(|| ());
        tracing::info_span!(target: "other", "foreign").in_scope(|| ());
        start_range("upload")
    });
    std::thread::spawn(move || drop(upload)).join().expect("it ends");
}
