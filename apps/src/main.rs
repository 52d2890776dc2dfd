//! The program `hearth`: the command line over the library `hearth-apps`.

use std::process::ExitCode;

fn main() -> ExitCode {
    hearth_apps::cli::main()
}
