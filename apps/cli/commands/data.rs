//! `hearth data`.

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use hearth_data::phantom;
use hearth_registry::counted;

use super::{convert, inspect, preview, verify};
use crate::error::{Context, Failure, Outcome};
use crate::folders;
use crate::out;
use crate::terminal::progress;

/// Arguments of `hearth data`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

impl Args {
    /// Whether the command has no result but its output.
    pub fn only_prints(&self) -> bool {
        matches!(self.action, Action::Inspect(_) | Action::Verify(_))
    }
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
    Convert(convert::ImageArgs),
    /// Generate realistic images with exact labels: volumes in the layout of a public data set, or
    /// annotated slides
    Phantom {
        /// The content of the images
        kind: Kind,
        /// The number of cases
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
        cases: u32,
        /// The output folder; must be empty or new
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Size: voxels in plane, 16 to 1024, from which the number of slices follows; for slides
        /// pixels along a side, 512 to 16384
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(16..=16384))]
        size: Option<u32>,
        /// The seed; the same seed gives the same images
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// The files and labels of `brats` [default: decathlon]
        #[arg(long, value_enum)]
        layout: Option<Layout>,
        /// The number of additional `spheres` volumes in OUT/test, a separate data set
        #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000))]
        test: u32,
        /// The noise of `spheres`, between 0 and this value; the spheres have values of 0.5 to 1
        /// [default: 0]
        #[arg(long, value_name = "VALUE")]
        noise: Option<f64>,
        /// `spleen`: volumes that take longer to learn: more noise, organs of like intensity, voxels of
        /// several tissues, and another field of view in every case
        #[arg(long)]
        hard: bool,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// CT of an abdomen with a spleen
    Spleen,
    /// MR of the head in four contrasts with a tumour of nested parts
    Brats,
    /// CT of a chest with a lung tumour, as DICOM with structure sets
    Lung,
    /// Radiographs of hands, as pictures (64 x 64 pixels by default)
    Hands,
    /// Bright spheres, as in MONAI's cross-validation notebook
    Spheres,
    /// Stained tissue slides with tumours, and their annotations
    Pathology,
}

/// Layouts of brain tumour data.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Layout {
    /// The Decathlon's Task01: one image with four channels; labels 1, 2, 3
    Decathlon,
    /// BraTS 2018 to 2022: a folder for each case; labels 1, 2, 4
    Brats2018,
    /// BraTS 2023 and later: a folder for each case; labels 1, 2, 3
    Brats2023,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Outcome {
    match &args.action {
        Action::Inspect(args) => inspect::run(args),
        Action::Verify(args) => verify::run(args),
        #[cfg(feature = "download")]
        Action::Download(args) => super::download::run(args),
        Action::Preview(args) => preview::run(args),
        Action::Convert(args) => convert::run_image(args),
        Action::Phantom { kind, size: Some(size @ 1025..), .. } if !matches!(kind, Kind::Pathology) => {
            Err(Failure::new(format!("--size {size}: volumes have 16 to 1024 voxels in plane")))
        }
        Action::Phantom { kind, layout: Some(_), .. } if !matches!(kind, Kind::Brats) => {
            Err(Failure::new("--layout is for `brats`: the others have one layout each"))
        }
        Action::Phantom { kind, noise: Some(_), .. } if !matches!(kind, Kind::Spheres) => {
            Err(Failure::new("--noise is for `spheres`: the others have noise of their own"))
        }
        Action::Phantom { kind, test: 1.., .. } if !matches!(kind, Kind::Spheres) => {
            Err(Failure::new("--test is for `spheres`: make a second folder with another --seed"))
        }
        Action::Phantom { kind, hard: true, .. } if !matches!(kind, Kind::Spleen) => {
            Err(Failure::new("--hard is for `spleen`: the others have one difficulty each"))
        }
        Action::Phantom { kind: Kind::Brats, cases, out, size, seed, layout, .. } => {
            folders::check_free(out)?;
            let mut options = phantom::BratsOptions::default().seed(*seed).progress(progress());
            if let Some(size) = size {
                options.size = *size as usize;
            }
            let (layout, classes) = match layout.unwrap_or(Layout::Decathlon) {
                Layout::Decathlon => (phantom::BratsLayout::Decathlon, ""),
                Layout::Brats2018 => (phantom::BratsLayout::Brats2018, " --set task.classes=brats2018"),
                Layout::Brats2023 => (phantom::BratsLayout::Brats2023, " --set task.classes=brats2023"),
            };
            options.layout = layout;
            let made = phantom::brats(out, *cases as usize, &options);
            made.while_doing(|| format!("cannot make the volumes in {}", out.display()))?;
            let made = counted(*cases as usize, "case");
            out!("{made} in {}; for `hearth train brats --data {0}{classes}`", out.display());
            Ok(())
        }
        Action::Phantom { kind: Kind::Lung, cases, out, size, seed, .. } => {
            folders::check_free(out)?;
            let mut options = phantom::LungOptions::default().seed(*seed).progress(progress());
            if let Some(size) = size {
                options.size = *size as usize;
            }
            let made = phantom::lung(out, *cases as usize, &options);
            made.while_doing(|| format!("cannot make the volumes in {}", out.display()))?;
            out!("{cases} patients in {}; for `hearth train lung --data {0}`", out.display());
            Ok(())
        }
        Action::Phantom { kind: Kind::Hands, cases, out, size, seed, .. } => {
            folders::check_free(out)?;
            let mut options = phantom::HandsOptions::default().seed(*seed).progress(progress());
            if let Some(size) = size {
                options.size = *size as usize;
            }
            let made = phantom::hands(out, *cases as usize, &options);
            made.while_doing(|| format!("cannot make the pictures in {}", out.display()))?;
            let made = counted(*cases as usize, "picture");
            out!("{made} in {}; for `hearth train gan --data {0}`", out.display());
            Ok(())
        }
        Action::Phantom { kind: Kind::Spheres, cases, out, size, seed, test, noise, .. } => {
            folders::check_free(out)?;
            let options = spheres_options(size.map_or(128, |size| size as usize), noise.unwrap_or(0.0), *seed)?;
            phantom::spheres(out, *cases as usize, *test as usize, &options)
                .while_doing(|| format!("cannot make the volumes in {}", out.display()))?;
            out!(
                "{} in {1}; try: hearth train ensemble --data {1} --out run",
                counted(*cases as usize, "case"),
                out.display()
            );
            Ok(())
        }
        Action::Phantom { kind: Kind::Spleen, cases, out, size, seed, hard, .. } => {
            folders::check_free(out)?;
            let options = spleen_options(size.map(|size| size as usize), *seed).hard(*hard);
            write_spleens(out, *cases as usize, &options)?;
            // The recipe `demo` uses the last four for validation.
            let hint = match *cases > 4 {
                true => format!("; try: hearth train demo --data {} --out run", out.display()),
                false => String::new(),
            };
            out!("{} in {}{hint}", counted(*cases as usize, "case"), out.display());
            Ok(())
        }
        Action::Phantom { kind: Kind::Pathology, cases, out, size, seed, .. } => {
            folders::check_free(out)?;
            phantom_slides(out, *cases as usize, size.map(|size| size as usize), *seed)?;
            let shown = out.display();
            out!(
                "{} in {shown}; try: hearth train pathology --data {shown} --out run",
                counted(*cases as usize, "slide")
            );
            Ok(())
        }
    }
}

/// Options for spheres, in the proportions of MONAI's notebook.
pub fn spheres_options(size: usize, noise: f64, seed: u64) -> Outcome<phantom::SpheresOptions> {
    let seed = u32::try_from(seed).map_err(|_| Failure::new(format!("--seed {seed}: numpy takes 32 bits")))?;
    Ok(phantom::SpheresOptions::scaled(size).noise_max(noise).seed(seed).progress(progress()))
}

/// Writes slides with tumours and their annotations.
pub fn phantom_slides(out: &Path, cases: usize, size: Option<usize>, seed: u64) -> Outcome {
    let mut options = phantom::PathologyOptions::default();
    (options.seed, options.progress) = (seed, progress());
    if let Some(size) = size {
        options.size = size;
    }
    phantom::pathology(out, cases, &options).while_doing(|| format!("cannot make the slides in {}", out.display()))?;
    Ok(())
}

/// Writes CT-like volumes with a spleen, as a Decathlon folder.
pub fn phantom_spleen(out: &Path, cases: usize, size: Option<usize>, seed: u64) -> Outcome {
    write_spleens(out, cases, &spleen_options(size, seed))
}

/// Options for volumes with a spleen.
pub fn spleen_options(size: Option<usize>, seed: u64) -> phantom::SpleenOptions {
    let options = phantom::SpleenOptions::default().seed(seed).progress(progress());
    match size {
        Some(size) => options.size(size),
        None => options,
    }
}

/// Writes volumes with a spleen with these options.
pub fn write_spleens(out: &Path, cases: usize, options: &phantom::SpleenOptions) -> Outcome {
    phantom::spleen(out, cases, options).while_doing(|| format!("cannot make the volumes in {}", out.display()))?;
    Ok(())
}
