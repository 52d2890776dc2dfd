//! Checks that the given options and files apply to the bench: one without effect is an error.

use clap::ValueEnum;
use hearth_registry::counted;

use super::{Args, Bench};
use crate::error::{Failure, Outcome};

/// The benches that compute with a network.
const COMPUTING: &[Bench] = &[Bench::Step, Bench::Infer, Bench::Fit, Bench::Ladder, Bench::Models, Bench::Profile];
/// The benches that run on a device.
const ON_DEVICE: &[Bench] =
    &[Bench::Step, Bench::Infer, Bench::Fit, Bench::Ladder, Bench::Models, Bench::Profile, Bench::Layers];

/// The options for some benches only: the name, whether it was given, and its benches.
fn options(args: &Args) -> Vec<(&'static str, bool, &'static [Bench])> {
    use Bench::{
        Crop, Datasets, Fit, Import, Infer, Ladder, Layers, Load, Models, Preprocess, Profile, Step, Stored, Tiles,
    };
    const TIMED: &[Bench] = &[Step, Load, Preprocess, Crop, Stored, Tiles, Infer, Models, Layers, Profile, Import];
    vec![
        ("--net", args.net.is_some(), &[Step, Profile, Infer]),
        ("--patch", args.patch.is_some(), &[Step, Profile, Infer, Crop, Stored, Tiles, Fit, Datasets]),
        ("--batch", args.batch.is_some(), &[Step, Profile, Datasets]),
        ("--size", args.size.is_some(), &[Infer, Ladder, Datasets]),
        ("--cases", args.cases.is_some(), &[Ladder, Datasets]),
        ("--sw-batch", args.sw_batch.is_some(), &[Infer]),
        ("--epochs", args.epochs.is_some(), &[Fit, Ladder, Datasets]),
        ("--every", args.every.is_some(), &[Fit, Ladder]),
        ("--val", args.val.is_some(), &[Fit]),
        ("--target", args.target.is_some(), &[Fit, Ladder]),
        ("--seed", args.seed.is_some(), &[Fit, Ladder, Datasets, Models, Crop, Stored, Tiles]),
        ("--seeds", args.seeds.is_some(), &[Ladder]),
        ("--kind", args.kind.is_some(), &[Datasets]),
        ("--out", args.out.is_some(), &[Ladder, Datasets]),
        ("--resume", args.resume, &[Ladder]),
        ("--rows", !args.rows.is_empty(), &[Ladder]),
        ("--peer", args.peer.is_some(), &[Ladder, Datasets]),
        ("--runs", args.runs.is_some(), TIMED),
        ("--limit", args.limit.is_some(), &[Layers]),
        ("--device", args.device.is_some(), ON_DEVICE),
        ("--tune", args.tune.is_some(), ON_DEVICE),
        ("--convolutions", args.convolutions.is_some(), ON_DEVICE),
        ("--amp", args.amp.is_some(), COMPUTING),
    ]
}

/// The largest number of files of a bench.
fn most_files(bench: Bench) -> usize {
    match bench {
        Bench::Step | Bench::Infer | Bench::Layers | Bench::Profile | Bench::Import => 0,
        Bench::Load | Bench::Tiles | Bench::Fit | Bench::Datasets => 1,
        Bench::Preprocess | Bench::Crop | Bench::Stored | Bench::Ladder => 2,
        Bench::Models => usize::MAX,
    }
}

/// Fails for an option or a file that the bench does not use.
pub(super) fn check(args: &Args) -> Outcome {
    let bench = word(args.bench);
    let most = most_files(args.bench);
    if let Some(file) = args.files.get(most) {
        return Err(Failure::new(format!(
            "`hearth bench {bench}` does not use {}: expected {} at most; remove it",
            file.display(),
            counted(most, "file")
        )));
    }
    let generated = args.size.is_some() || args.cases.is_some();
    if generated && matches!(args.bench, Bench::Ladder | Bench::Datasets) && !args.files.is_empty() {
        let what = "--size and --cases are for generated volumes";
        return Err(Failure::new(format!("`hearth bench {bench}` was given data, and {what}: remove one of them")));
    }
    let options = options(args);
    let Some((option, ..)) = options.iter().find(|(_, given, benches)| *given && !benches.contains(&args.bench)) else {
        return Ok(());
    };
    let used: Vec<&str> =
        options.iter().filter(|(.., benches)| benches.contains(&args.bench)).map(|(option, ..)| *option).collect();
    let used = if used.is_empty() { String::new() } else { format!(", only {}", used.join(", ")) };
    Err(Failure::new(format!("`hearth bench {bench}` does not use {option}{used}: remove it")))
}

/// The name of a bench on the command line.
pub(super) fn word(bench: Bench) -> String {
    bench.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
