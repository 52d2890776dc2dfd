//! `hearth export`: a run for other programs.

use std::path::PathBuf;

use clap::ValueEnum;
use hearth_recipe::nnunet::{ExportOptions, export};

use crate::error::Outcome;
use crate::folders::check_free;
use crate::out;

/// Arguments of `hearth export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a run, or of the runs of a cross-validation
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// For which program
    #[arg(long, value_name = "WHAT")]
    pub to: Target,
    /// A new folder for the model
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    pub out: PathBuf,
    /// best, latest, or the name of a folder in RUN/checkpoints
    #[arg(long, default_value = "best")]
    pub checkpoint: String,
    /// The ending of image files that the model is for
    #[arg(long, value_name = "END", default_value = ".nii.gz")]
    pub file_ending: String,
    /// Name of a channel; may be given several times
    #[arg(long = "channel", value_name = "NAME")]
    pub channels: Vec<String>,
}

/// A program that loads what is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Target {
    /// A model folder of nnU-Net v2, of a run whose recipe `hearth plan` wrote
    Nnunet,
}

/// Writes it, and prints the files.
pub fn run(args: &Args) -> Outcome {
    check_free(&args.out)?;
    let Target::Nnunet = args.to;
    let options = ExportOptions {
        checkpoint: args.checkpoint.clone(),
        file_ending: args.file_ending.clone(),
        channel_names: args.channels.clone(),
    };
    for path in export(&args.run, &args.out, &options)? {
        out!("{}", path.display());
    }
    Ok(())
}
