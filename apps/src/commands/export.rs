//! `hearth export`: a run for other programs.

use std::path::PathBuf;

use clap::ValueEnum;
use hearth_recipe::nnunet::{ExportOptions, export};

use crate::commands::package::{self, PackageArgs};
use crate::error::{Failure, Outcome};
use crate::folders::check_free;
use crate::out;

/// Arguments of `hearth export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a run, or of the runs of a cross-validation; for a package also that of a trained
    /// model of nnU-Net v2, or of several
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// What is written: MODEL.hearth, or a new folder
    #[arg(value_name = "OUT", required_unless_present = "out")]
    pub to_path: Option<PathBuf>,
    /// For which program [default: hearth, where OUT ends with .hearth]
    #[arg(long, value_name = "WHAT")]
    pub to: Option<Target>,
    /// The same as OUT
    #[arg(short = 'o', long = "out", value_name = "PATH", conflicts_with = "to_path")]
    pub out: Option<PathBuf>,
    /// best, latest, or the name of a folder in RUN/checkpoints
    #[arg(long, default_value = "best")]
    pub checkpoint: String,
    /// The ending of image files that the model is for
    #[arg(long, value_name = "END", default_value = ".nii.gz")]
    pub file_ending: String,
    /// Name of a channel; may be given several times
    #[arg(long = "channel", value_name = "NAME")]
    pub channels: Vec<String>,
    /// Options for packages.
    #[command(flatten)]
    pub package: PackageArgs,
}

/// A program that loads what is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Target {
    /// A package: one file that `hearth predict` and `hearth models add` take
    Hearth,
    /// A model folder of nnU-Net v2, of a run whose recipe `hearth plan` wrote
    Nnunet,
}

/// Writes it, and prints the files.
pub fn run(args: &Args) -> Outcome {
    let out = args.out.as_ref().or(args.to_path.as_ref()).ok_or_else(|| Failure::new("give the path to write"))?;
    let is_package = out.extension().is_some_and(|end| end.eq_ignore_ascii_case("hearth"));
    match args.to {
        Some(Target::Hearth) => return package::export(&args.run, out, &args.checkpoint, &args.package),
        None if is_package => return package::export(&args.run, out, &args.checkpoint, &args.package),
        None => return Err(Failure::new("for which program? --to says so; the name of a package ends with .hearth")),
        Some(Target::Nnunet) => {}
    }
    if let Some(option) = args.package.given() {
        return Err(Failure::new(format!("{option} is for packages: remove it, or add --to hearth")));
    }
    check_free(out)?;
    let options = ExportOptions {
        checkpoint: args.checkpoint.clone(),
        file_ending: args.file_ending.clone(),
        channel_names: args.channels.clone(),
    };
    for path in export(&args.run, out, &options)? {
        out!("{}", path.display());
    }
    Ok(())
}
