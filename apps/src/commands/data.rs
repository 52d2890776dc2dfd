//! `hearth data`.

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use hearth_data::{phantom, slide_phantom};

use super::{convert, inspect, preview, verify};
use crate::error::{Context, Outcome};
use crate::folders;
use crate::out;
use crate::terminal::progress;

/// Arguments of `hearth data`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Describe an image and anything unusual in it: geometry, type, values, labels
    Inspect(inspect::Args),
    /// Check a data set: read every file, compare labels with images, and list what to fix
    Verify(verify::Args),
    /// Download a public data set
    #[cfg(feature = "download")]
    Download(super::download::Args),
    /// Draw a case after a recipe's transforms, as a contact sheet
    Preview(preview::Args),
    /// Write an image in another format
    Convert(convert::Args),
    /// Generate realistic images with exact labels: volumes as a Decathlon folder, slides with
    /// annotations
    Phantom {
        /// What they show
        kind: Kind,
        /// How many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
        cases: u32,
        /// The output folder; must be empty or new
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Voxels in plane, 16 to 1024, and the slices follow; pixels along a slide, 512 to 16384
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(16..=16384))]
        size: Option<u32>,
        /// The same seed gives the same images
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// CT of an abdomen with a spleen
    Spleen,
    /// Slides of stained tissue with tumours, and annotations
    Pathology,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Outcome {
    match &args.action {
        Action::Inspect(args) => inspect::run(args),
        Action::Verify(args) => verify::run(args),
        #[cfg(feature = "download")]
        Action::Download(args) => super::download::run(args),
        Action::Preview(args) => preview::run(args),
        Action::Convert(args) => convert::run(args),
        Action::Phantom { kind: Kind::Spleen, cases, out, size, seed } => {
            folders::check_free(out)?;
            phantom_spleen(out, *cases as usize, size.map(|size| size as usize), *seed)?;
            // The recipe `demo` keeps the last four for validation.
            let hint = match *cases > 4 {
                true => format!("; try: hearth train demo --data {} --out run", out.display()),
                false => String::new(),
            };
            out!("{cases} cases in {}{hint}", out.display());
            Ok(())
        }
        Action::Phantom { kind: Kind::Pathology, cases, out, size, seed } => {
            folders::check_free(out)?;
            phantom_slides(out, *cases as usize, size.map(|size| size as usize), *seed)?;
            let shown = out.display();
            out!("{cases} slides in {shown}; try: hearth train pathology --data {shown} --out run");
            Ok(())
        }
    }
}

/// Slides with tumours and their annotations.
pub fn phantom_slides(out: &Path, cases: usize, size: Option<usize>, seed: u64) -> Outcome {
    let mut options = slide_phantom::SlideOptions::default();
    (options.seed, options.progress) = (seed, progress());
    if let Some(size) = size {
        options.size = size;
    }
    slide_phantom::slides(out, cases, &options)
        .while_doing(|| format!("cannot make the slides in {}", out.display()))?;
    Ok(())
}

/// CT-like volumes with a spleen, as a Decathlon folder.
pub fn phantom_spleen(out: &Path, cases: usize, size: Option<usize>, seed: u64) -> Outcome {
    let mut options = phantom::SpleenOptions::default();
    (options.seed, options.progress) = (seed, progress());
    if let Some(size) = size {
        options.size = size;
    }
    phantom::spleen(out, cases, &options).while_doing(|| format!("cannot make the volumes in {}", out.display()))?;
    Ok(())
}
