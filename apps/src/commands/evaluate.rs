//! `hearth evaluate`.

use std::path::PathBuf;

use crate::error::Outcome;

/// Arguments of `hearth evaluate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a run
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The data set: a Decathlon folder with a dataset.json
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Which checkpoint: best, latest, or the name of a folder in RUN/checkpoints
    #[arg(long, default_value = "best")]
    pub checkpoint: String,
    /// Evaluate every labelled case, not only those that the recipe holds back for validation
    #[arg(long)]
    pub all: bool,
    /// Where to compute: cpu, cuda:0, vulkan, rocm:0, metal, auto
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
