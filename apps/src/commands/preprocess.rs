//! `hearth preprocess`.

use std::path::PathBuf;

use crate::error::Outcome;

/// Arguments of `hearth preprocess`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A bundled recipe or a TOML file
    #[arg(value_name = "RECIPE")]
    pub recipe: String,
    /// The image (NIfTI)
    #[arg(long, value_name = "FILE")]
    pub image: PathBuf,
    /// Its label
    #[arg(long, value_name = "FILE")]
    pub label: Option<PathBuf>,
    /// Where the results go
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    pub out: PathBuf,
    /// Changes one value of the recipe
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
}
