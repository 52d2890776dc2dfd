//! `hearth export`: a run for other programs.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use hearth_recipe::export::{BundleOptions, bundle, onnx};
use hearth_recipe::nnunet::{ExportOptions, export};

use crate::error::{Context, Failure, Outcome};
use crate::folders::{check_free, open_run};
use crate::out;

/// Arguments of `hearth export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a run; for nnU-Net also that of the runs of a cross-validation
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// For which program
    #[arg(long, value_name = "WHAT")]
    pub to: Target,
    /// A new folder for the model; of ONNX a new file [default of ONNX: model.onnx]
    #[arg(short = 'o', long = "out", value_name = "PATH", required_if_eq_any([("to", "nnunet"), ("to", "bundle")]))]
    pub out: Option<PathBuf>,
    /// best, latest, or the name of a folder in RUN/checkpoints
    #[arg(long, default_value = "best")]
    pub checkpoint: String,
    /// The ending of image files that a model of nnU-Net is for
    #[arg(long, value_name = "END", default_value = ".nii.gz")]
    pub file_ending: String,
    /// Name of a channel of a model of nnU-Net; may be given several times
    #[arg(long = "channel", value_name = "NAME")]
    pub channels: Vec<String>,
    /// The licence of a bundle, a text file; by default one that grants nothing
    #[arg(long, value_name = "FILE")]
    pub license: Option<PathBuf>,
}

/// A program that loads what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// A model folder of nnU-Net v2, of a run whose recipe `hearth plan` wrote
    Nnunet,
    /// A bundle that MONAI runs
    Bundle,
    /// An ONNX model of the network alone, for ONNX Runtime, OpenVINO, TensorRT
    Onnx,
}

/// Writes it, and prints the files.
pub fn run(args: &Args) -> Outcome {
    if args.license.is_some() && args.to != Target::Bundle {
        return Err(Failure::new("--license is that of a bundle: remove it, or export --to bundle"));
    }
    let out = args.out.as_deref().unwrap_or(Path::new("model.onnx"));
    match args.to {
        Target::Nnunet => to_nnunet(args, out),
        Target::Bundle => to_bundle(args, out),
        Target::Onnx => to_onnx(args, out),
    }
}

fn to_nnunet(args: &Args, out: &Path) -> Outcome {
    check_free(out)?;
    let options = ExportOptions {
        checkpoint: args.checkpoint.clone(),
        file_ending: args.file_ending.clone(),
        channel_names: args.channels.clone(),
    };
    listed(&export(&args.run, out, &options)?);
    Ok(())
}

fn to_bundle(args: &Args, out: &Path) -> Outcome {
    check_free(out)?;
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path).while_doing(|| format!("cannot read --license {}", path.display()))
    };
    let license = args.license.as_ref().map(read).transpose()?;
    let options = BundleOptions { checkpoint: args.checkpoint.clone(), license };
    listed(&bundle(&open_run(&args.run)?, out, &options)?);
    Ok(())
}

fn to_onnx(args: &Args, out: &Path) -> Outcome {
    if out.symlink_metadata().is_ok() {
        let advice = "remove it, or give another name by -o";
        return Err(Failure::new(format!("{} exists already; {advice}", out.display())));
    }
    let made = onnx(&open_run(&args.run)?, &args.checkpoint, out)?;
    listed(&made.files);
    let [_, channels, x, y, z] = made.traced;
    out!("{} operators, traced with {channels} x {x} x {y} x {z}; any batch and size that fits", made.operators);
    Ok(())
}

fn listed(files: &[PathBuf]) {
    for path in files {
        out!("{}", path.display());
    }
}
