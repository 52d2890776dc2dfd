//! `hearth data`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use crate::error::Outcome;

/// Arguments of `hearth data`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make volumes that look like the real thing, with exact labels, as a Decathlon folder
    Phantom {
        /// What they show
        kind: Kind,
        /// How many
        #[arg(long, value_name = "N")]
        cases: usize,
        /// Where they go; must be empty or new
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Voxels in plane; the slices follow
        #[arg(long, value_name = "N")]
        size: Option<usize>,
        /// The same seed gives the same volumes
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// CT of an abdomen with a spleen
    Spleen,
}
