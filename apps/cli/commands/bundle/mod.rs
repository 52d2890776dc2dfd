//! `hearth bundle`: MONAI bundles without Python.

pub(crate) mod flags;
mod inspect;
pub(crate) mod run;

use std::path::PathBuf;

use clap::Subcommand;

use crate::error::Outcome;

/// Arguments of `hearth bundle`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print what a bundle is, what each of its configs needs, and what is missing
    Inspect(InspectArgs),
    /// Check whether a config can run, with the exit code: report everything that is missing, files
    /// included
    Check(InspectArgs),
    /// Run a config as `python -m monai.bundle run` does: [RUN_ID] BUNDLE [--ID VALUE ...]
    Run(RunArgs),
    /// Convert a config to a recipe as far as possible, and report what was left out
    Convert(ConvertArgs),
}

/// Arguments of `hearth bundle inspect` and `check`.
#[derive(Debug, clap::Args)]
pub struct InspectArgs {
    /// The folder of a bundle, or its zip file
    #[arg(value_name = "BUNDLE")]
    pub bundle: PathBuf,
    /// The name or file of the only config to use; several are merged in order
    #[arg(long = "config-file", visible_alias = "config_file", value_name = "FILE", num_args = 1..)]
    pub config_files: Vec<String>,
    /// The id to run [default: run, or the only list that runs an evaluator]
    #[arg(long, value_name = "ID")]
    pub run_id: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `hearth bundle run`, in the syntax of MONAI's.
#[derive(Debug, clap::Args)]
#[command(after_help = run::HELP)]
pub struct RunArgs {
    /// An optional id to run, the bundle and options, as described below
    #[arg(value_name = "ARGS", num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// Arguments of `hearth bundle convert`.
#[derive(Debug, clap::Args)]
pub struct ConvertArgs {
    /// The folder of a bundle, or its zip file
    #[arg(value_name = "BUNDLE")]
    pub bundle: PathBuf,
    /// The config [default: train, else inference]; several are merged in order
    #[arg(long = "config-file", visible_alias = "config_file", value_name = "FILE", num_args = 1..)]
    pub config_files: Vec<String>,
    /// The recipe to write; weights of an inference config are written next to it, as NAME.safetensors
    #[arg(short = 'o', long = "out", value_name = "FILE")]
    pub out: PathBuf,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Inspect(args) => inspect::run(args),
        Command::Check(args) => inspect::check(args),
        Command::Run(args) => run::run(args),
        Command::Convert(args) => convert(args),
    }
}

fn convert(args: &ConvertArgs) -> Outcome {
    use crate::error::Context;
    use crate::{note, out};

    crate::folders::check_free(&args.out)?;
    let weights = args.out.with_extension("safetensors");
    let opened = hearth_models::bundle::open(&args.bundle)?;
    let converted = hearth_models::bundle::convert(&opened.bundle, &args.config_files)?;
    hearth_files::replace(&args.out, &converted.recipe)
        .while_doing(|| format!("cannot write {}", args.out.display()))?;
    out!("{}", args.out.display());
    if let Some(bytes) = &converted.weights {
        crate::folders::check_free(&weights)?;
        hearth_files::replace(&weights, bytes).while_doing(|| format!("cannot write {}", weights.display()))?;
        out!("{}", weights.display());
    }
    for left in &converted.left_out {
        note!("left out: {left}");
    }
    Ok(())
}
