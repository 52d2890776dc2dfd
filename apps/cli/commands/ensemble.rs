//! `hearth ensemble`: several runs predict as one.

use std::path::{Path, PathBuf};

use hearth_models::cases::globs::expanded;
use hearth_models::job::Job;
use hearth_models::open::{Family, OpenOptions, open, package};
use hearth_models::run::RunModel;
use hearth_package::Package;
use hearth_registry::counted;
use hearth_train::Ranks;

use crate::commands::merging::{self, DisagreementWord, MeanOf, MergeArgs};
use crate::commands::opening::OpeningArgs;
use crate::commands::output_args::FileArgs;
use crate::commands::predict;
use crate::error::{Failure, Outcome};
use crate::note;
use crate::ranks::{RanksArgs, local_rank};
use crate::sharing::{prepared, shared_cases};

/// Arguments of `hearth ensemble`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders of runs, or packages of runs; a folder with fold0, fold1, ... counts as all its folds.
    /// Or nnU-Net models of one data set, whose probabilities are averaged
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// The images, as for `predict`
    #[arg(short = 'i', long = "image", value_name = "PATH", required = true, num_args = 1..)]
    pub images: Vec<PathBuf>,
    /// The folder for the results, which are named as those of `predict`
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    pub out: PathBuf,
    /// How the predictions are merged.
    #[command(flatten)]
    pub merge: MergeArgs,
    /// Also write where the runs differ: NAME_entropy.nii.gz or NAME_variance.nii.gz, for slides
    /// NAME_entropy.npy and NAME_entropy_heat.tif (or variance); may be given several times
    #[arg(long, value_enum, value_name = "MAP", value_delimiter = ',')]
    pub disagreement: Vec<DisagreementWord>,
    /// Which network is used, and how.
    #[command(flatten)]
    pub opening: OpeningArgs,
    /// Also write NAME_std.nii.gz: the standard deviation of the foreground probability over the
    /// augmented images; for nnU-Net models over models, folds and mirrored images, at twice the time
    #[arg(long)]
    pub uncertainty: bool,
    /// Use packages only if they are signed by the holder of this public key (PEM, Ed25519)
    #[arg(long, value_name = "FILE")]
    pub verify_key: Option<PathBuf>,
    /// What is written, and what may be replaced.
    #[command(flatten)]
    pub files: FileArgs,
    /// The number of ranks, each of which processes some of the images.
    #[command(flatten)]
    pub ranks: RanksArgs,
}

/// Predicts each image with all runs. An error with one image does not stop the others.
pub fn run(args: &Args) -> Outcome {
    shared_cases(&args.ranks, |ranks| of_rank(args, ranks))
}

fn of_rank(args: &Args, ranks: Option<&Ranks>) -> Outcome {
    if let Some(key) = &args.verify_key {
        args.runs.iter().try_for_each(|path| check_signature(path, key))?;
    }
    let is_nnunet = |path: &&PathBuf| Family::of(path, false) == Family::Nnunet;
    if let Some(model) = args.runs.iter().find(is_nnunet) {
        if let Some(other) = args.runs.iter().find(|path| !is_nnunet(path)) {
            let (model, other) = (model.display(), other.display());
            let what = "an ensemble merges runs, or models of nnU-Net of one data set";
            return Err(Failure::new(format!("{other} is no model of nnU-Net, and {model} is one: {what}")));
        }
        return of_nnunet(args, ranks);
    }
    let open = || -> Outcome<_> {
        let runs = merging::runs(&args.runs)?;
        let options = OpenOptions { uncertainty: args.uncertainty, ..args.opening.options() };
        let opening = options.opening().of_rank(local_rank(ranks));
        Ok((merging::open(&runs, &opening, &args.merge, &args.disagreement)?, runs))
    };
    let (trained, runs) = prepared(ranks, open())?;
    note!("{}, {}", counted(runs.len(), "run"), args.merge.words());
    let of_predict = predict::Args {
        images: expanded(&args.images)?,
        opening: args.opening.clone(),
        files: args.files.clone(),
        uncertainty: args.uncertainty,
        ..predict::Args::new(&runs[0], Vec::new(), &args.out, &args.opening.device, None)
    };
    let model = RunModel::new(trained);
    let job = Job { command: "ensemble", ..of_predict.outputs(&model, ranks)? };
    predict::finished(&job, &of_predict.images)
}

/// Checks that a model is a package that is signed with the key.
fn check_signature(path: &Path, key: &Path) -> Outcome {
    if !Package::is_one(path) {
        let what = "is no package, and only packages are signed: remove the option";
        return Err(Failure::new(format!("--verify-key: {} {what}", path.display())));
    }
    package(path, Some(key))?;
    Ok(())
}

/// Predicts with nnU-Net models, whose probabilities are averaged as `nnUNetv2_ensemble` does.
fn of_nnunet(args: &Args, ranks: Option<&Ranks>) -> Outcome {
    let given = [
        ("--mean=logits", args.merge.mean == Some(MeanOf::Logits)),
        ("--vote", args.merge.vote),
        ("--staple", args.merge.staple),
        ("--weights", args.merge.weights.is_some()),
        ("--disagreement", !args.disagreement.is_empty()),
    ];
    if let Some((name, _)) = given.into_iter().find(|(_, given)| *given) {
        let what = "is for runs; the probabilities of models of nnU-Net are averaged";
        return Err(Failure::new(format!("{name} {what}: remove it")));
    }
    let options =
        OpenOptions { with: args.runs[1..].to_vec(), local_rank: local_rank(ranks), ..args.opening.options() };
    let model = prepared(ranks, open(&args.runs[0], &options))?;
    note!("{}, mean of probabilities", model.card().description);
    let of_predict = predict::Args {
        images: expanded(&args.images)?,
        opening: args.opening.clone(),
        files: args.files.clone(),
        uncertainty: args.uncertainty,
        ..predict::Args::new(&args.runs[0], Vec::new(), &args.out, &args.opening.device, None)
    };
    let job = Job { command: "ensemble", ..of_predict.outputs(&*model, ranks)? };
    predict::finished(&job, &of_predict.images)
}
