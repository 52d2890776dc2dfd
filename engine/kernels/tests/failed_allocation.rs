//! An allocation that fails ends a program with a message and exit code 1, whether or not Rust writes a
//! backtrace, which allocates blocks of its own.
#![cfg(target_os = "linux")]

use std::process::Command;

use hearth_kernels::memory::{KeepLarge, report_failures};

#[global_allocator]
static ALLOCATOR: KeepLarge = KeepLarge::new();

/// More than any machine has.
const TOO_MUCH: usize = 1 << 56;

/// Set in the process whose allocation fails.
const FAILS: &str = "HEARTH_TEST_FAILED_ALLOCATION";

/// The test itself runs in a second process, in which the allocation fails.
#[test]
fn ends_the_program_with_a_message() {
    if std::env::var_os(FAILS).is_some() {
        report_failures();
        let block = Vec::<u8>::with_capacity(std::hint::black_box(TOO_MUCH));
        panic!("there is room for {} bytes", block.capacity());
    }
    let program = std::env::current_exe().expect("this program");
    for style in [None, Some("0"), Some("1"), Some("full")] {
        let mut command = Command::new(&program);
        command.args(["--exact", "ends_the_program_with_a_message"]).env(FAILS, "1").env_remove("RUST_BACKTRACE");
        if let Some(style) = style {
            command.env("RUST_BACKTRACE", style);
        }
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{style:?}: {said}");
        assert!(said.contains("out of memory") && said.contains("68719476736 MiB"), "{style:?}: {said}");
    }
}
