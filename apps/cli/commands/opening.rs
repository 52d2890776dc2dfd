//! How `evaluate`, `predict`, `ensemble` and `serve` open the models that they use.

use std::path::PathBuf;

use hearth_models::open::OpenOptions;

use crate::commands::tta::TtaWord;
use crate::terminal::progress;

/// Options that say which network is used, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct OpeningArgs {
    /// Which checkpoint of each run: best, latest, or the name of a folder in RUN/checkpoints; of a
    /// model of nnU-Net final, best, or the name of a file [default: best; of nnU-Net final]
    #[arg(long)]
    pub checkpoint: Option<String>,
    /// Where to compute: cpu, cuda:0, vulkan, rocm:0, metal, auto
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Time for choosing kernels on a card, in place of the recipe's: off, quick, full or auto
    #[arg(long, value_name = "HOW")]
    pub tune: Option<String>,
    /// Test-time augmentation, in place of the recipe's
    #[arg(long, value_name = "HOW")]
    pub tta: Option<TtaWord>,
    /// Faults of DICOM series that are accepted, as in MissingSlices; may be given several times
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    pub accept: Vec<String>,
    /// How these data number the parts of a brain tumour, where it differs from the training:
    /// decathlon, brats2015, brats2018, brats2023. Labels are read, and written, so
    #[arg(long, value_name = "CONVENTION")]
    pub classes: Option<String>,
    /// The second stage of a cascade: the folder of the labels that the earlier stage predicted for these
    /// images
    #[arg(long, value_name = "DIR")]
    pub previous_stage: Option<PathBuf>,
}

impl OpeningArgs {
    /// The best checkpoint on a device, as the command line has it without other options.
    pub fn new(device: &str, tune: Option<&str>) -> Self {
        let tune = tune.map(str::to_owned);
        Self {
            checkpoint: None,
            device: device.to_owned(),
            tune,
            tta: None,
            accept: Vec::new(),
            classes: None,
            previous_stage: None,
        }
    }

    /// The checkpoint of each run.
    pub fn checkpoint(&self) -> &str {
        self.checkpoint.as_deref().unwrap_or("best")
    }

    /// For the library; long work is shown.
    pub fn options(&self) -> OpenOptions {
        OpenOptions {
            device: self.device.clone(),
            checkpoint: self.checkpoint.clone(),
            tune: self.tune.clone(),
            tta: self.tta.map(TtaWord::tta),
            accept: self.accept.clone(),
            classes: self.classes.clone(),
            previous_stage: self.previous_stage.clone(),
            progress: progress(),
            ..OpenOptions::default()
        }
    }
}

/// What a model is opened with besides its name.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ModelArgs {
    /// Weights in safetensors for a recipe, a file or the name of a bundled one, in place of a run
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Take a package only if the holder of this public key (PEM, Ed25519) signed it
    #[arg(long, value_name = "FILE", conflicts_with = "weights")]
    pub verify_key: Option<PathBuf>,
}

/// Options for trained models of nnU-Net v2 alone.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Options for models of nnU-Net v2 and TotalSegmentator")]
pub struct NnunetArgs {
    /// Folds whose outputs are averaged: 0 1 2, or all [default: those that the folder has]
    #[arg(long, value_name = "FOLD", num_args = 1..)]
    pub folds: Vec<String>,
    /// Distance of two tiles as a share of the patch [default: 0.5]
    #[arg(long, value_name = "SHARE")]
    pub step_size: Option<f64>,
    /// Predict each tile once, and not mirrored along each axis, too
    #[arg(long)]
    pub no_mirroring: bool,
    /// The type in which the network computes: fp32, bf16 [default: fp32]
    #[arg(long, value_name = "TYPE")]
    pub precision: Option<String>,
    /// nnU-Net's postprocessing.pkl or postprocessing.json, applied to the labels
    #[arg(long, value_name = "FILE")]
    pub postprocessing: Option<PathBuf>,
    /// Other models of the same data set, whose probabilities are averaged with this one's
    #[arg(long, value_name = "MODEL", num_args = 1..)]
    pub with: Vec<PathBuf>,
    /// Of a folder of several models, as TotalSegmentator's: only these classes, by the models that have
    /// them
    #[arg(long, value_name = "CLASS", num_args = 1..)]
    pub roi_subset: Vec<String>,
    /// Of a folder with models of several tasks of TotalSegmentator: the task, as total or kidney_cysts
    #[arg(long, value_name = "TASK")]
    pub task: Option<String>,
    /// Of a task of TotalSegmentator: its fast or fastest models, its small or big ones, or as fast-small
    /// [default: the finest that are there, and big ones]
    #[arg(long, value_name = "VARIANT")]
    pub variant: Option<String>,
}

/// All that says how a model is opened.
pub fn open_options(opening: &OpeningArgs, model: &ModelArgs, nnunet: &NnunetArgs) -> OpenOptions {
    let NnunetArgs { folds, step_size, no_mirroring, precision, postprocessing, with, roi_subset, task, variant } =
        nnunet.clone();
    OpenOptions {
        weights: model.weights.clone(),
        verify_key: model.verify_key.clone(),
        folds,
        step_size,
        no_mirroring,
        precision,
        postprocessing,
        with,
        roi_subset,
        task,
        variant,
        ..opening.options()
    }
}
