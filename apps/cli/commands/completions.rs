//! `hearth completions SHELL`.

use clap_complete::{Shell, generate};

use crate::error::Outcome;
use crate::out;

/// Arguments of `hearth completions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the shell script that completes this program's commands and options.
pub fn run(args: &Args) -> Outcome {
    let mut script = Vec::new();
    generate(args.shell, &mut crate::cli::command(), "hearth", &mut script);
    out!("{}", String::from_utf8_lossy(&script).trim_end());
    Ok(())
}
