//! `hearth predict`.

use std::path::PathBuf;

use crate::error::Outcome;

/// Arguments of `hearth predict`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a run
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The images (NIfTI)
    #[arg(short = 'i', long = "image", value_name = "FILE", required = true, num_args = 1..)]
    pub images: Vec<PathBuf>,
    /// Where the label maps go, under the names of the images
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    pub out: PathBuf,
    /// Which checkpoint: best, latest, or the name of a folder in RUN/checkpoints
    #[arg(long, default_value = "best")]
    pub checkpoint: String,
    /// Where to compute: cpu, cuda:0, vulkan, rocm:0, metal, auto
    #[arg(long, default_value = "auto")]
    pub device: String,
}
