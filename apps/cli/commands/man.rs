//! `hearth man`.

use std::fs;
use std::path::PathBuf;

use crate::error::{Context, Outcome};
use crate::out;

/// Arguments of `hearth man`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder, such as ~/.local/share/man/man1; it is created if it is missing, and hearth pages in
    /// it are replaced
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Writes a page for the program and one for each command: `hearth.1`, `hearth-train.1`, ...
pub fn run(args: &Args) -> Outcome {
    let doing = || format!("the manual pages are written to {}", args.out.display());
    fs::create_dir_all(&args.out).while_doing(doing)?;
    clap_mangen::generate_to(crate::cli::command(), &args.out).while_doing(doing)?;
    out!("man {}", args.out.join("hearth.1").display());
    Ok(())
}
