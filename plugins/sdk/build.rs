//! Records the compiler and the target for the identity record of every plugin.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_else(|| "rustc of unknown version".to_owned());
    println!("cargo:rustc-env=HEARTH_PLUGIN_RUSTC={}", version.trim());
    println!("cargo:rustc-env=HEARTH_PLUGIN_TARGET={}", std::env::var("TARGET").unwrap_or_default());
}
