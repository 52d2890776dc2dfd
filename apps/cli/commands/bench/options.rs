//! Checks that the given options apply to the bench: an option without effect is an error.

use clap::ValueEnum;

use super::{Args, Bench};
use crate::error::{Failure, Outcome};

/// The options for some benches only: the name, whether it was given, and its benches.
fn options(args: &Args) -> [(&'static str, bool, &'static [Bench]); 10] {
    use Bench::{Crop, Fit, Infer, Ladder, Profile, Step, Stored, Tiles};
    [
        ("--net", args.net.is_some(), &[Step, Profile, Infer]),
        ("--patch", args.patch.is_some(), &[Step, Profile, Infer, Crop, Stored, Tiles, Fit]),
        ("--batch", args.batch.is_some(), &[Step, Profile]),
        ("--size", args.size.is_some(), &[Infer]),
        ("--sw-batch", args.sw_batch.is_some(), &[Infer]),
        ("--epochs", args.epochs.is_some(), &[Fit, Ladder]),
        ("--every", args.every.is_some(), &[Fit, Ladder]),
        ("--val", args.val.is_some(), &[Fit]),
        ("--target", args.target.is_some(), &[Fit, Ladder]),
        ("--out", args.out.is_some(), &[Ladder]),
    ]
}

/// Fails for an option that the bench does not use, and lists those that it does use.
pub(super) fn check(args: &Args) -> Outcome {
    let options = options(args);
    let Some((option, ..)) = options.iter().find(|(_, given, benches)| *given && !benches.contains(&args.bench)) else {
        return Ok(());
    };
    let used: Vec<&str> =
        options.iter().filter(|(.., benches)| benches.contains(&args.bench)).map(|(option, ..)| *option).collect();
    let used = if used.is_empty() { String::new() } else { format!(", only for {}", used.join(", ")) };
    let bench = word(args.bench);
    Err(Failure::new(format!("`hearth bench {bench}` does not use {option}{used}: remove it")))
}

/// The name of a bench on the command line.
pub(super) fn word(bench: Bench) -> String {
    bench.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
