//! `hearth train`.

use std::path::PathBuf;

use crate::error::Outcome;

/// Arguments of `hearth train`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A bundled recipe (`hearth recipes list`) or a TOML file; with --resume it may be left out
    #[arg(value_name = "RECIPE", required_unless_present = "resume")]
    pub recipe: Option<String>,
    /// The data set: a Decathlon folder with a dataset.json
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// The run's folder; it is made, and must be empty unless --resume is given
    #[arg(long, value_name = "RUN")]
    pub out: PathBuf,
    /// Where to train: cpu, cuda:0, vulkan, rocm:0, metal, auto
    #[arg(long)]
    pub device: Option<String>,
    /// Epochs to train, in place of the recipe's
    #[arg(long, value_name = "N")]
    pub epochs: Option<String>,
    /// The seed of every random draw, in place of the recipe's
    #[arg(long, value_name = "N")]
    pub seed: Option<String>,
    /// fp32, bf16 or fp16, in place of the recipe's
    #[arg(long)]
    pub precision: Option<String>,
    /// A plugin library, or a folder to look for plugins in; may be given several times
    #[arg(long = "plugin", value_name = "PATH")]
    pub plugins: Vec<PathBuf>,
    /// Changes one value of the recipe, as in optimizer.lr=0.01 or transforms.Spacing.pixdim=[1,1,1]
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// Go on from the newest whole checkpoint of RUN, with RUN's own recipe
    #[arg(long)]
    pub resume: bool,
    /// Show the recipe, pipeline, network, cache size, device and plugins, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}
