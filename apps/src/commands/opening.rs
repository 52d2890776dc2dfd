//! How `evaluate`, `predict` and `ensemble` open the runs that they use.

use std::path::PathBuf;

use crate::commands::tta::TtaWord;
use crate::run::Opening;
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
    pub fn opening(&self) -> Opening<'_> {
        Opening {
            checkpoint: self.checkpoint(),
            device: &self.device,
            tune: self.tune.as_deref(),
            tta: self.tta.map(TtaWord::tta),
            accept: self.accept.clone(),
            classes: self.classes.as_deref(),
            previous_stage: self.previous_stage.as_deref(),
            progress: progress(),
            local_rank: 0,
        }
    }
}
