//! The program `hearth`: runs the command line of the library `hearth-apps`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: hearth::kernels::memory::KeepLarge = hearth::kernels::memory::KeepLarge::new();

fn main() -> ExitCode {
    hearth_apps::cli::main()
}
