//! `hearth memory`: estimates the memory that a recipe takes before it runs, and what would fit.

use std::path::PathBuf;

use serde_json::json;

use crate::commands::dry_run::sizes_text;
use crate::error::{Context, Failure, Outcome};
use crate::out;
use crate::recipe::bundled;
use crate::run::{Footprint, Sizes, footprint};
use crate::table::{self, Lean};
use crate::terminal::{bold, bytes};

/// Arguments of `hearth memory`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A bundled recipe (`hearth recipes list`) or a TOML file
    #[arg(value_name = "RECIPE")]
    pub recipe: String,
    /// The data set, as for `hearth train`; its first cases give the sizes, and its caches are counted
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Voxels of a crop, such as 96,96,96 [default: from the recipe's transforms]
    #[arg(long, value_name = "X,Y,Z")]
    pub patch: Option<String>,
    /// Voxels of a validation volume after the transforms [default: those of the first case]
    #[arg(long, value_name = "X,Y,Z")]
    pub volume: Option<String>,
    /// The memory that the largest batch and the largest crop must fit in, such as 12GiB or 800MiB
    /// [default: the memory that is free on this machine]
    #[arg(long, value_name = "SIZE")]
    pub limit: Option<String>,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
    /// Change one value of the recipe, such as training.batch_size=4
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
}

/// Measures the memory, and prints it.
pub fn run(args: &Args) -> Outcome {
    let mut document = bundled::open(&args.recipe)?;
    args.sets.iter().try_for_each(|set| document.set(set))?;
    let shape = |option: &str, text: &Option<String>| text.as_deref().map(|text| voxels(option, text)).transpose();
    let (patch, volume) = (shape("--patch", &args.patch)?, shape("--volume", &args.volume)?);
    let (limit, of_limit) = match &args.limit {
        Some(text) => (size(text)?, text.clone()),
        None => {
            let hearth_machine::Allowance { free, by, .. } = hearth_machine::Allowance::now();
            (free, format!("{} that {by} leaves free here", bytes(free)))
        }
    };
    let found = footprint(&document, &Sizes { data: args.data.as_deref(), patch, volume });
    let found = match &args.patch {
        Some(patch) => found.while_doing(|| format!("--patch {patch}"))?,
        None => found?,
    };
    if args.json {
        let fits = json!({
            "limit": limit, "batch_crops": found.largest_batch(limit), "patch": found.largest_patch(limit),
        });
        let whole = json!({
            "memory": found, "training": found.training(), "validating": found.validating(), "in_use": found.in_use(), "held": found.held(),
            "fits": fits,
        });
        out!("{}", serde_json::to_string_pretty(&whole)?);
        return Ok(());
    }
    print(&found, args, limit, &of_limit);
    Ok(())
}

fn print(found: &Footprint, args: &Args, limit: u64, of_limit: &str) {
    let mut rows: Vec<[String; 3]> = Vec::new();
    let mut row = |what: &str, size: u64, why: String| rows.push([what.to_owned(), bytes(size), why]);
    row("program", found.program, String::new());
    match found.cache {
        Some(cache) => row("caches", cache, String::new()),
        None => row("caches", 0, "not known: give --data".to_owned()),
    }
    row("opening", found.opening, "looking through the data set, before anything else".to_owned());
    row("loading", found.loading, "cases that are read and transformed while caches are filled".to_owned());
    row("weights", found.weights, String::new());
    row("gradients", found.gradients, String::new());
    row("optimizer", found.optimizer, String::new());
    let crops = format!(
        "{} crops of {} in a step, {} each",
        found.crops,
        sizes_text(found.patch),
        bytes(found.activations_of_a_crop)
    );
    row("activations", found.activations, crops);
    row("waiting batches", found.batches, String::new());
    row("making batches", found.making, "in threads, during training".to_owned());
    row("checkpoint", found.checkpoint, "a copy that is written during training".to_owned());
    row("training, in all", found.training(), String::new());
    match (&found.validation, found.validating()) {
        (Some(validation), Some(all)) => {
            let windows = format!("{} windows of {}", validation.windows, sizes_text(validation.window));
            row("windows", validation.activations, windows);
            row("maps", validation.maps, format!("a volume of {}", sizes_text(validation.volume)));
            row("validation, in all", all, "without gradients and activations of training".to_owned());
        }
        _ => row("validation", 0, "not known: give --data or --volume".to_owned()),
    }
    let columns = [("memory", Lean::Left), ("bytes", Lean::Right), ("", Lean::Left)];
    let rows: Vec<Vec<String>> = rows.into_iter().map(Vec::from).collect();
    let lines = table::lines(&columns, &rows);
    out!("{}", bold(&lines[0]));
    lines[1..].iter().for_each(|line| out!("{line}"));
    out!("");
    out!("{}  {}", bold("in use at most"), bytes(found.in_use()));
    out!(
        "the process holds at most {}: with the program, and freed blocks that wait for their next use",
        bytes(found.held())
    );
    if let Some(voxels) = found.measured {
        out!("measured with crops of {voxels} voxels; a step's memory is a line over them");
    }
    let batch = found.largest_batch(limit);
    let patch = found.largest_patch(limit);
    let each = args.sets.iter().any(|set| set.starts_with("training.batch_size"));
    let now = if each { "with --set" } else { "now" };
    match (batch, patch) {
        (0, None) => out!("{of_limit}: not even a small crop fits"),
        (batch, patch) => {
            let patch = patch.map_or("none".to_owned(), sizes_text);
            out!("{of_limit}: {batch} crops of {} fit in a step ({now} {}),", sizes_text(found.patch), found.crops);
            out!("  or {} crops of {patch}", found.crops);
        }
    }
}

/// Parses three numbers of voxels; of two, one slice.
pub fn voxels(option: &str, text: &str) -> Outcome<[usize; 3]> {
    let wrong = || Failure::new(format!("{option} {text}: give voxels along each axis, as in 96,96,96"));
    let numbers = text.split([',', 'x']).map(|number| number.trim().parse::<usize>().ok().filter(|n| *n > 0));
    let numbers: Vec<usize> = numbers.collect::<Option<_>>().ok_or_else(wrong)?;
    match numbers[..] {
        [x, y, z] => Ok([x, y, z]),
        [x, y] => Ok([x, y, 1]),
        _ => Err(wrong()),
    }
}

/// Parses a number of bytes with a unit.
fn size(text: &str) -> Outcome<u64> {
    let wrong = || Failure::new(format!("--limit {text}: give a size with its unit, as in 12GiB or 800MiB"));
    let text = text.trim();
    let at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(at);
    let factor: f64 = match unit.to_ascii_lowercase().as_str() {
        "gib" | "g" => (1_u64 << 30) as f64,
        "mib" | "m" => (1_u64 << 20) as f64,
        "gb" => 1e9,
        "mb" => 1e6,
        _ => return Err(wrong()),
    };
    let number =
        number.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0 && *n < 1e9).ok_or_else(wrong)?;
    Ok((number * factor) as u64)
}
