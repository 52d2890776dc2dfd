//! `hearth ensemble`: several runs predict as one.

pub mod demo;
pub(super) mod measure;

use std::path::PathBuf;

use crate::commands::merging::{self, DisagreementWord, MergeArgs};
use crate::commands::predict;
use crate::commands::tta::TtaWord;
use crate::error::{Failure, Outcome};
use crate::note;
use crate::run::Opening;
use crate::terminal::progress;

/// Arguments of `hearth ensemble`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders of runs; a folder with fold0, fold1, ... is all of them
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
    /// Also write NAME_entropy.nii.gz or NAME_variance.nii.gz: where the runs differ; may be given
    /// several times
    #[arg(long, value_enum, value_name = "MAP", value_delimiter = ',')]
    pub disagreement: Vec<DisagreementWord>,
    /// Which checkpoint of each run: best, latest, or the name of a folder in RUN/checkpoints
    #[arg(long, default_value = "best")]
    pub checkpoint: String,
    /// Where to compute: cpu, cuda:0, vulkan, rocm:0, metal, auto
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Time for choosing kernels on a card, in place of the recipe's: off, quick, full or auto
    #[arg(long, value_name = "HOW")]
    pub tune: Option<String>,
    /// Test-time augmentation of each run, in place of the recipe's
    #[arg(long, value_name = "HOW")]
    pub tta: Option<TtaWord>,
    /// Faults of DICOM series that are accepted, as in MissingSlices; may be given several times
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    pub accept: Vec<String>,
    /// Also write NAME_prob.nii.gz: the merged probability of each label or region
    #[arg(long)]
    pub probabilities: bool,
    /// Also write NAME_seg.dcm, as `predict` does
    #[arg(long)]
    pub dicom_seg: bool,
    /// Also write NAME_rtstruct.dcm, as `predict` does
    #[arg(long)]
    pub rtstruct: bool,
    /// Of several DICOM series of a study, one: as for `predict`
    #[arg(long, value_name = "SERIES")]
    pub series: Option<String>,
    /// Draw NAME_picture.png too: outlines, scores or images beside the input; labels with them
    /// where a data set is given that has them
    #[arg(long)]
    pub picture: bool,
    /// Replace results that an earlier `hearth ensemble` wrote and nobody has changed since
    #[arg(long)]
    pub overwrite: bool,
}

/// Predicts each image with all runs. An error in one does not stop the others.
pub fn run(args: &Args) -> Outcome {
    let runs = merging::runs(&args.runs)?;
    let opening = Opening {
        checkpoint: &args.checkpoint,
        device: &args.device,
        tune: args.tune.as_deref(),
        tta: args.tta.map(TtaWord::tta),
        accept: args.accept.clone(),
        progress: progress(),
    };
    let trained = merging::open(&runs, &opening, &args.merge, &args.disagreement)?;
    if trained.plan.recipe.learns().patches().is_some() {
        return Err(Failure::new("maps of slides are not merged: predict with each run, and average the .npy files"));
    }
    note!("{} runs, {}", runs.len(), args.merge.words());
    let of_predict = predict::Args {
        run: runs[0].clone(),
        images: args.images.clone(),
        out: args.out.clone(),
        count: None,
        seed: None,
        checkpoint: args.checkpoint.clone(),
        device: args.device.clone(),
        tune: args.tune.clone(),
        tta: args.tta,
        uncertainty: false,
        probabilities: args.probabilities,
        dicom_seg: args.dicom_seg,
        rtstruct: args.rtstruct,
        series: args.series.clone(),
        accept: args.accept.clone(),
        picture: args.picture,
        overwrite: args.overwrite,
    };
    predict::predict_all(&of_predict, &trained, "ensemble")
}
