//! Which options mean something to which bench: one that would change nothing is refused.

use clap::ValueEnum;

use super::{Args, Bench};
use crate::error::{Failure, Outcome};

/// The options that are for some benches only: whether each was given, and what it is for.
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

/// Fails for an option that the bench does not use, and says which of them it does.
pub(super) fn check(args: &Args) -> Outcome {
    let options = options(args);
    let Some((option, ..)) = options.iter().find(|(_, given, benches)| *given && !benches.contains(&args.bench)) else {
        return Ok(());
    };
    let used: Vec<&str> =
        options.iter().filter(|(.., benches)| benches.contains(&args.bench)).map(|(option, ..)| *option).collect();
    let used = if used.is_empty() { String::new() } else { format!(", only for {}", used.join(", ")) };
    let bench = word(args.bench);
    Err(Failure::new(format!("`hearth bench {bench}` has no use for {option}{used}: remove it")))
}

/// A bench as it is written on the command line.
pub(super) fn word(bench: Bench) -> String {
    bench.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
