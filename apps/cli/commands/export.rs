//! `hearth export`: writes a run in a format for other programs.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use hearth_models::export::{BundleOptions, OnnxOptions, bundle, onnx};
use hearth_models::nnunet::{ExportOptions, export};
use hearth_models::run::Opening;

use crate::commands::merging::{self, MergeArgs};
use crate::commands::package::{self, PackageArgs};
use crate::error::{Context, Failure, Outcome};
use crate::folders::{check_free, is_run, open_run};
use crate::{note, out};

/// Arguments of `hearth export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a run; for nnU-Net and packages also the folder of a cross-validation's runs; for
    /// packages and ONNX also a trained nnU-Net v2 model or a MONAI bundle, for packages several models
    /// side by side
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The output: MODEL.hearth, MODEL.onnx, or a new folder [default for ONNX: model.onnx]
    #[arg(value_name = "OUT")]
    pub to_path: Option<PathBuf>,
    /// More runs for the package, which then predicts as `hearth ensemble` with all of them
    #[arg(long, value_name = "RUN", num_args = 1..)]
    pub with: Vec<PathBuf>,
    /// How the predictions are merged.
    #[command(flatten)]
    pub merge: MergeArgs,
    /// The program that loads the output [default: by the extension of OUT, .hearth or .onnx]
    #[arg(long, value_name = "WHAT")]
    pub to: Option<Target>,
    /// The same as OUT
    #[arg(short = 'o', long = "out", value_name = "PATH", conflicts_with = "to_path")]
    pub out: Option<PathBuf>,
    /// best, latest, or the name of a folder in RUN/checkpoints; for ONNX also a checkpoint of an
    /// nnU-Net model [default: best; for nnU-Net final]
    #[arg(long)]
    pub checkpoint: Option<String>,
    /// For ONNX: the fold of an nnU-Net model [default: its only one]
    #[arg(long, value_name = "NAME")]
    pub fold: Option<String>,
    /// The extension of the image files that an nnU-Net model reads
    #[arg(long, value_name = "END", default_value = ".nii.gz")]
    pub file_ending: String,
    /// The name of a channel of an nnU-Net model; may be given several times
    #[arg(long = "channel", value_name = "NAME")]
    pub channels: Vec<String>,
    /// Options for packages.
    #[command(flatten)]
    pub package: PackageArgs,
}

impl Args {
    /// The checkpoint to use if the model is a run.
    fn of_run(&self) -> &str {
        self.checkpoint.as_deref().unwrap_or("best")
    }
}

/// A program that loads the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// A package: one file for `hearth predict` and `hearth models add`
    Hearth,
    /// A model folder of nnU-Net v2, from a run whose recipe `hearth plan` wrote
    Nnunet,
    /// A bundle that MONAI runs, from one run
    Bundle,
    /// An ONNX model of the network alone, for ONNX Runtime, OpenVINO, TensorRT
    Onnx,
}

/// Writes the output, and prints its files.
pub fn run(args: &Args) -> Outcome {
    let of_onnx = (args.to == Some(Target::Onnx)).then(|| Path::new("model.onnx"));
    let Some(out) = args.out.as_deref().or(args.to_path.as_deref()).or(of_onnx) else {
        return Err(Failure::new("give the path to write, as OUT or by --out"));
    };
    let target = match args.to {
        Some(target) => target,
        None => target_of(out)?,
    };
    if target != Target::Hearth
        && let Some(option) = args.package.given(target == Target::Bundle)
    {
        return Err(Failure::new(format!("{option} is for packages: remove it, or add --to hearth")));
    }
    if target != Target::Hearth && (!args.with.is_empty() || args.merge.given()) {
        let what = "--with and the ways of merging make a package of several runs";
        return Err(Failure::new(format!("{what}: remove them, or add --to hearth")));
    }
    if target != Target::Onnx && args.fold.is_some() {
        return Err(Failure::new(
            "--fold chooses a network of a model of nnU-Net for ONNX: remove it, or add --to onnx",
        ));
    }
    match target {
        Target::Hearth => to_package(args, out),
        Target::Nnunet => to_nnunet(args, out),
        Target::Bundle => to_bundle(args, out),
        Target::Onnx => to_onnx(args, out),
    }
}

/// The target that the name of the output selects.
fn target_of(out: &Path) -> Outcome<Target> {
    let ends_with = |wanted: &str| out.extension().is_some_and(|end| end.eq_ignore_ascii_case(wanted));
    if ends_with("hearth") {
        return Ok(Target::Hearth);
    }
    if ends_with("onnx") {
        return Ok(Target::Onnx);
    }
    Err(Failure::new("the output format is unknown: give --to, or a name that ends with .hearth or .onnx"))
}

/// Writes a package of one model, or of runs that predict together.
fn to_package(args: &Args, out: &Path) -> Outcome {
    let given: Vec<PathBuf> = std::iter::once(&args.run).chain(&args.with).cloned().collect();
    let runs = merging::runs(&given)?;
    if runs == [args.run.clone()] {
        if args.merge.given() {
            return Err(Failure::new("--mean, --vote, --staple and --weights merge runs: give several by --with"));
        }
        return package::export(&runs, None, out, args.of_run(), &args.package);
    }
    // Opened first, so that the package only holds runs that can be merged.
    let merged = merging::open(&runs, &Opening::new(args.of_run(), "cpu"), &args.merge, &[])?;
    let merging = merged.ensemble.as_ref().map(|all| all.merging().clone()).unwrap_or_default();
    note!("{} runs, {}", runs.len(), args.merge.words());
    package::export(&runs, Some(&merging), out, args.of_run(), &args.package)
}

fn to_nnunet(args: &Args, out: &Path) -> Outcome {
    check_free(out)?;
    let options = ExportOptions {
        checkpoint: args.of_run().to_owned(),
        file_ending: args.file_ending.clone(),
        channel_names: args.channels.clone(),
    };
    listed(&export(&args.run, out, &options)?);
    Ok(())
}

fn to_bundle(args: &Args, out: &Path) -> Outcome {
    check_free(out)?;
    let read = |path: &PathBuf| {
        hearth_files::read_to_string(path).while_doing(|| format!("cannot read --licence {}", path.display()))
    };
    let license = args.package.licence.as_ref().map(read).transpose()?;
    let options = BundleOptions { checkpoint: args.of_run().to_owned(), license };
    if let Some(fold) = fold_in(&args.run) {
        let (folder, fold) = (args.run.display(), fold.display());
        let what = "holds runs of a cross-validation, and a bundle has one network";
        let advice = "or make one package of all of them with --to hearth";
        return Err(Failure::new(format!("{folder} {what}: give one of them, such as {fold}, {advice}")));
    }
    listed(&bundle(&open_run(&args.run)?, out, &options)?);
    Ok(())
}

/// The first run in a folder that is not itself a run.
fn fold_in(folder: &Path) -> Option<PathBuf> {
    if is_run(folder) {
        return None;
    }
    let entries = std::fs::read_dir(folder).ok()?;
    entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_run(path)).min()
}

fn to_onnx(args: &Args, out: &Path) -> Outcome {
    if out.symlink_metadata().is_ok() {
        let advice = "remove it, or give another name by -o";
        return Err(Failure::new(format!("{} exists already; {advice}", out.display())));
    }
    let options = OnnxOptions { checkpoint: args.checkpoint.clone(), fold: args.fold.clone() };
    let made = onnx(&args.run, &options, out)?;
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
