//! `hearth devices`.

use crate::error::Outcome;

/// Arguments of `hearth devices`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print a JSON list
    #[arg(long)]
    json: bool,
}
