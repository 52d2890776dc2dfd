//! `hearth tune`: chooses GPU kernels before a run, and transfers the choices to machines with the same
//! GPU.

use std::path::PathBuf;
use std::time::Instant;

use hearth::kernels::choices;
use hearth_registry::counted;

use crate::commands::memory::voxels;
use crate::error::{Context, Failure, Outcome};
use crate::out;
use crate::recipe::bundled;
use crate::run::{Sizes, choose_kernels};
use crate::terminal::seconds;

/// Arguments of `hearth tune`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A bundled recipe (`hearth recipes list`) or a TOML file
    #[arg(value_name = "RECIPE", required_unless_present_any = ["import", "export"])]
    pub recipe: Option<String>,
    /// The device of the run: cuda:0, vulkan, rocm:0, metal, auto
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// The data set, as for `hearth train`; its first cases give the sizes
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Voxels of a crop, such as 96,96,96 [default: from the recipe's transforms]
    #[arg(long, value_name = "X,Y,Z")]
    pub patch: Option<String>,
    /// Voxels of a validation volume [default: those of the first case, or of a batch of windows]
    #[arg(long, value_name = "X,Y,Z")]
    pub volume: Option<String>,
    /// How thoroughly to search: quick or full
    #[arg(long, value_name = "HOW", default_value = "full")]
    pub tune: String,
    /// Write all choices of this machine to a file, for machines with the same GPU
    #[arg(long, value_name = "FILE")]
    pub export: Option<PathBuf>,
    /// First add the choices of such a file to those of this machine
    #[arg(long, value_name = "FILE")]
    pub import: Option<PathBuf>,
    /// Change one value of the recipe, such as training.batch_size=4
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
}

/// Imports, chooses and exports kernels, as requested.
pub fn run(args: &Args) -> Outcome {
    if let Some(file) = &args.import {
        let found = choices::import(file).while_doing(|| "cannot import choices")?;
        out!("{}: {} new here, {} known", file.display(), counted(found.new, "choice"), found.known);
    }
    if let Some(recipe) = &args.recipe {
        choose(args, recipe)?;
    }
    if let Some(file) = &args.export {
        if file.exists() {
            return Err(Failure::new(format!("{} exists; choose another name", file.display())));
        }
        let count = choices::export(file).while_doing(|| "cannot export choices")?;
        out!("{}: {}; elsewhere: hearth tune --import FILE", file.display(), counted(count as usize, "choice"));
    }
    Ok(())
}

fn choose(args: &Args, recipe: &str) -> Outcome {
    if !["quick", "full"].contains(&args.tune.as_str()) {
        return Err(Failure::new(format!("--tune {}: give quick or full", args.tune)));
    }
    let mut document = bundled::open(recipe)?;
    if let Some(device) = &args.device {
        document.set_option("--device", "training.device", device)?;
    }
    args.sets.iter().try_for_each(|set| document.set(set))?;
    document.set_option("--tune", "training.tune", &args.tune)?;
    let shape = |option: &str, text: &Option<String>| text.as_deref().map(|text| voxels(option, text)).transpose();
    let sizes = Sizes {
        data: args.data.as_deref(),
        patch: shape("--patch", &args.patch)?,
        volume: shape("--volume", &args.volume)?,
    };
    let begun = Instant::now();
    let found = choose_kernels(&document, &sizes)?;
    let took = seconds(begun.elapsed().as_secs_f64());
    match found.kernels {
        0 => out!("nothing new to choose: every kernel is known, in {took}"),
        kernels => out!("{} chosen in {}, of {took}", counted(kernels, "kernel"), seconds(found.seconds)),
    }
    Ok(())
}
