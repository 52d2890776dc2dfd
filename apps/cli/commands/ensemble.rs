//! `hearth ensemble`: several runs predict as one.

use std::path::PathBuf;

use hearth_models::cases::globs::expanded;
use hearth_models::job::Job;
use hearth_models::model::{Kind, Model};
use hearth_models::open::{Family, OpenOptions, open};
use hearth_models::run::RunModel;
use hearth_train::Ranks;

use crate::commands::merging::{self, DisagreementWord, MeanOf, MergeArgs};
use crate::commands::opening::OpeningArgs;
use crate::commands::output_args::FileArgs;
use crate::commands::{predict, predict_slides};
use crate::error::{Failure, Outcome};
use crate::note;
use crate::ranks::{RanksArgs, local_rank};
use crate::sharing::{prepared, shared_cases};

/// Arguments of `hearth ensemble`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders of runs, or packages of them; a folder with fold0, fold1, ... is all of them. Or models of
    /// nnU-Net of one data set, whose probabilities are averaged
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// The images, as for `predict`
    #[arg(short = 'i', long = "image", value_name = "PATH", required = true, num_args = 1..)]
    pub images: Vec<PathBuf>,
    /// Where the results go, named as those of `predict`
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    pub out: PathBuf,
    /// How they are merged.
    #[command(flatten)]
    pub merge: MergeArgs,
    /// Also write NAME_entropy.nii.gz or NAME_variance.nii.gz, of a slide NAME_entropy.npy and
    /// NAME_entropy_heat.tif: where the runs differ; may be given several times
    #[arg(long, value_enum, value_name = "MAP", value_delimiter = ',')]
    pub disagreement: Vec<DisagreementWord>,
    /// Which network is used, and how.
    #[command(flatten)]
    pub opening: OpeningArgs,
    /// Also write NAME_std.nii.gz: the standard deviation of the foreground's probability over the
    /// augmented images; of models of nnU-Net over models, folds and mirrored images, in twice the time
    #[arg(long)]
    pub uncertainty: bool,
    /// What is written, and in place of what.
    #[command(flatten)]
    pub files: FileArgs,
    /// By how many ranks, each of which takes some of the images.
    #[command(flatten)]
    pub ranks: RanksArgs,
}

/// Predicts each image with all runs. An error in one does not stop the others.
pub fn run(args: &Args) -> Outcome {
    shared_cases(args.ranks, |ranks| of_rank(args, ranks))
}

fn of_rank(args: &Args, ranks: Option<&Ranks>) -> Outcome {
    if args.runs.iter().any(|path| Family::of(path, false) == Family::Nnunet) {
        return of_nnunet(args, ranks);
    }
    let open = || -> Outcome<_> {
        let runs = merging::runs(&args.runs)?;
        let options = args.opening.options();
        let opening = options.opening().of_rank(local_rank(ranks));
        Ok((merging::open(&runs, &opening, &args.merge, &args.disagreement)?, runs))
    };
    let (trained, runs) = prepared(ranks, open())?;
    note!("{} runs, {}", runs.len(), args.merge.words());
    let of_predict = predict::Args {
        images: expanded(&args.images)?,
        opening: args.opening.clone(),
        files: args.files.clone(),
        uncertainty: args.uncertainty,
        ..predict::Args::new(&runs[0], Vec::new(), &args.out, &args.opening.device, None)
    };
    let model = RunModel::new(trained);
    if model.card().kind == Kind::SlideMap {
        return predict_slides::run(&of_predict, model.trained(), "ensemble", ranks);
    }
    let job = Job { command: "ensemble", ..of_predict.outputs(&model, ranks)? };
    Ok(job.run(&of_predict.images)?)
}

/// Predicts with models of nnU-Net, whose probabilities are averaged as `nnUNetv2_ensemble` does.
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
        files: args.files.clone(),
        uncertainty: args.uncertainty,
        ..predict::Args::new(&args.runs[0], Vec::new(), &args.out, &args.opening.device, None)
    };
    let job = Job { command: "ensemble", ..of_predict.outputs(&*model, ranks)? };
    Ok(job.run(&of_predict.images)?)
}
