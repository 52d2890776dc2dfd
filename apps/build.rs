//! Records the commit that the program is built from, for `hearth --version`.
//!
//! A release sets it exactly with `HEARTH_COMMIT`. Otherwise it is read from the checkout once per
//! branch: reading it after each commit would compile the program again after each commit.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=HEARTH_COMMIT");
    let exact = std::env::var("HEARTH_COMMIT").ok().filter(|commit| !commit.is_empty());
    let words = exact.or_else(|| {
        let head = git(&["rev-parse", "--git-path", "HEAD"])?;
        let head = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR")?).join(head);
        println!("cargo:rerun-if-changed={}", head.display());
        Some(format!("near {}, from a checkout", git(&["rev-parse", "--short=12", "HEAD"])?))
    });
    println!("cargo:rustc-env=HEARTH_BUILT_FROM={}", words.as_deref().unwrap_or("unknown"));
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
