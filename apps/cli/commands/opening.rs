//! How `evaluate`, `predict`, `ensemble` and `serve` open their models.

use std::path::PathBuf;

use hearth_models::open::OpenOptions;

use crate::commands::tta::TtaWord;
use crate::terminal::progress;

/// Options that select the network and how it runs.
#[derive(Clone, Debug, clap::Args)]
pub struct OpeningArgs {
    /// The checkpoint of each run: best, latest, or the name of a folder in RUN/checkpoints; of an
    /// nnU-Net model: final, best, or the name of a file [default: best; for nnU-Net final]
    #[arg(long)]
    pub checkpoint: Option<String>,
    /// The device to compute on: cpu, cuda:0, vulkan, rocm:0, metal, auto
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Time to spend on choosing GPU kernels, in place of the recipe's: off, quick, full or auto
    #[arg(long, value_name = "HOW")]
    pub tune: Option<String>,
    /// Whose kernels compute convolutions on a GPU of NVIDIA: own, vendor (cuDNN) or auto
    #[arg(long, value_name = "WHOSE")]
    pub convolutions: Option<String>,
    /// Test-time augmentation, in place of the recipe's
    #[arg(long, value_name = "HOW")]
    pub tta: Option<TtaWord>,
    /// Accept this fault of DICOM series, such as MissingSlices; may be given several times
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    pub accept: Vec<String>,
    /// How these data number the parts of a brain tumour, if it differs from the training data:
    /// decathlon, brats2015, brats2018, brats2023; applies to the labels that are read and written
    #[arg(long, value_name = "CONVENTION")]
    pub classes: Option<String>,
    /// For the second stage of a cascade: the folder with the labels that the earlier stage predicted
    /// for these images
    #[arg(long, value_name = "DIR")]
    pub previous_stage: Option<PathBuf>,
}

impl OpeningArgs {
    /// The options that the command line has without any option, on a device: the best checkpoint.
    pub fn new(device: &str, tune: Option<&str>) -> Self {
        let tune = tune.map(str::to_owned);
        Self {
            checkpoint: None,
            device: device.to_owned(),
            tune,
            convolutions: None,
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

    /// The library's options; the progress of long work is shown.
    pub fn options(&self) -> OpenOptions {
        OpenOptions {
            device: self.device.clone(),
            checkpoint: self.checkpoint.clone(),
            tune: self.tune.clone(),
            convolutions: self.convolutions.clone(),
            tta: self.tta.map(TtaWord::tta),
            accept: self.accept.clone(),
            classes: self.classes.clone(),
            previous_stage: self.previous_stage.clone(),
            progress: progress(),
            ..OpenOptions::default()
        }
    }
}

/// What a model is opened with, in addition to its name.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ModelArgs {
    /// Weights for a recipe, in place of a run: a safetensors file, or the name of bundled weights
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Use a package only if it is signed by the holder of this public key (PEM, Ed25519)
    #[arg(long, value_name = "FILE", conflicts_with = "weights")]
    pub verify_key: Option<PathBuf>,
}

/// Options only for trained models of nnU-Net v2.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Options for models of nnU-Net v2 and TotalSegmentator")]
pub struct NnunetArgs {
    /// The folds whose outputs are averaged: 0 1 2, or all [default: all in the folder]
    #[arg(long, value_name = "FOLD", num_args = 1..)]
    pub folds: Vec<String>,
    /// The distance between two tiles, as a share of the patch [default: 0.5]
    #[arg(long, value_name = "SHARE")]
    pub step_size: Option<f64>,
    /// Predict each tile only once, without mirroring along each axis
    #[arg(long)]
    pub no_mirroring: bool,
    /// The numeric type of the network: fp32, tf32 (CUDA), bf16 or fp16 [default: fp32]
    #[arg(long, value_name = "TYPE")]
    pub precision: Option<String>,
    /// Postprocessing to apply to the labels: nnU-Net's postprocessing.pkl or postprocessing.json
    #[arg(long, value_name = "FILE")]
    pub postprocessing: Option<PathBuf>,
    /// Other models of the same data set; their probabilities are averaged with this model's
    #[arg(long, value_name = "MODEL", num_args = 1..)]
    pub with: Vec<PathBuf>,
    /// For a folder of several models, such as TotalSegmentator's: predict only these classes, with the
    /// models that have them
    #[arg(long, value_name = "CLASS", num_args = 1..)]
    pub roi_subset: Vec<String>,
    /// For a folder with models of several TotalSegmentator tasks: the task, such as total or
    /// kidney_cysts
    #[arg(long, value_name = "TASK")]
    pub task: Option<String>,
    /// For a TotalSegmentator task: its fast or fastest models, its small or big ones, or a combination
    /// such as fast-small [default: the finest available, big]
    #[arg(long, value_name = "VARIANT")]
    pub variant: Option<String>,
}

/// All options for opening a model, in the library's form.
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
