//! `hearth demo`.

use std::path::PathBuf;

use crate::error::Outcome;

/// Arguments of `hearth demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where the data, the run, the predictions and the picture go
    #[arg(long, value_name = "DIR", default_value = "hearth-demo")]
    pub out: PathBuf,
    /// The seed of the volumes and of the training
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Where to train: cpu, cuda:0, vulkan, rocm:0, metal, auto
    #[arg(long, default_value = "auto")]
    pub device: String,
}
