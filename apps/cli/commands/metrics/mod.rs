//! `hearth metrics`: compares predictions with labels, file by file, without a recipe or a network.

pub mod froc;
mod measure;
mod pairs;
mod regions;
mod report;
mod spec;

use std::path::PathBuf;

use clap::Subcommand;

pub use measure::{Classes, Rules, case as measure_case};
pub use pairs::Pair;
pub use report::{PENALISED, Report as Table};
pub use spec::Spec;

use crate::commands::empty::EmptyWord;
use crate::error::{Failure, Outcome};
use crate::{note, out};

/// Arguments of `hearth metrics`.
#[derive(Debug, clap::Args)]
#[command(after_help = spec::HELP, subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// A prediction, or a folder of predictions
    #[arg(short, long, value_name = "FILE|DIR", required = true)]
    pred: Option<PathBuf>,
    /// The label of the prediction, or a folder of labels with the same names
    #[arg(short, long, value_name = "FILE|DIR", required = true)]
    label: Option<PathBuf>,
    /// A metric, with options after a colon, such as hausdorff:percentile=95; may be given several
    /// times
    #[arg(short, long = "metric", value_name = "NAME", default_values = ["dice"])]
    metrics: Vec<String>,
    /// The classes: names in the order of their values, background first, or 1=spleen,2=tumour
    /// [default: all values]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    labels: Vec<String>,
    /// Regions of several labels in place of classes: TC, WT and ET in the numbering of decathlon,
    /// brats2015, brats2018 (1, 2, 4), brats2023 (1, 2, 3) or tutorial, or a list such as
    /// core=1+3,whole=1+2+3
    #[arg(long, value_name = "NAME|LIST", conflicts_with_all = ["labels", "include_background"])]
    regions: Option<String>,
    /// The label of voxels without annotation, which are ignored
    #[arg(long, value_name = "LABEL")]
    ignore: Option<u32>,
    /// Also measure class 0
    #[arg(long)]
    include_background: bool,
    /// The distance to count if the prediction or the label has no voxel of a class
    #[arg(long, value_enum, value_name = "RULE", default_value_t = EmptyWord::Penalty)]
    empty: EmptyWord,
    /// Print one JSON object
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values, one line per case and class
    #[arg(long)]
    csv: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Measure detections on whole slides: sensitivity against false positives per slide (CAMELYON16)
    Froc(froc::Args),
}

/// Measures, and prints the results.
pub fn run(args: &Args) -> Outcome {
    if let Some(Action::Froc(args)) = &args.action {
        return froc::run(args);
    }
    let (Some(pred), Some(label)) = (&args.pred, &args.label) else {
        return Err(Failure::new("give predictions and labels: --pred and --label"));
    };
    let specs = args.metrics.iter().map(|text| spec::Spec::read(text)).collect::<Outcome<Vec<_>>>()?;
    let classes = match &args.regions {
        Some(regions) => measure::Classes::of_regions(regions::read(regions)?),
        None => measure::Classes::read(&args.labels, args.include_background)?,
    };
    if let (Some(_), Some(spec)) = (args.ignore, specs.iter().find(|spec| spec.kind == spec::Kind::Image)) {
        return Err(Failure::new(format!("--ignore is for label maps, and {} compares images", spec.text)));
    }
    let rules = measure::Rules { empty: args.empty.rule(), ignore: args.ignore };
    let pairs = pairs::find(pred, label)?;
    for (path, of) in &pairs.alone {
        note!("{} has no {of}; it is not measured", path.display());
    }
    let mut measured = report::Report::new(specs.iter().map(|spec| spec.text.clone()).collect());
    for pair in &pairs.found {
        match measure::case(pair, &specs, &classes, rules) {
            Ok(case) => measured.add(&pair.case, case),
            Err(failure) => {
                note!("{}", failure.line());
                measured.failed.push((pair.case.clone(), failure.line()));
            }
        }
    }
    if args.json {
        out!("{}", serde_json::to_string_pretty(&measured.to_json(&pairs.alone))?);
    } else {
        let lines = if args.csv { measured.to_csv() } else { measured.to_table() };
        lines.iter().for_each(|line| out!("{line}"));
    }
    if let Some(label) = args.ignore.filter(|_| measured.ignores_nothing()) {
        note!("--ignore {label}: no label has this value");
    }
    if args.csv {
        // The table has a line for each case and class, and no place for them.
        measured.notes().iter().for_each(|text| note!("{text}"));
    }
    unmeasured(measured.failed.len(), &pairs)
}

/// Fails if a case was not measured: its exit code is that of all cases.
fn unmeasured(failed: usize, pairs: &pairs::Pairs) -> Outcome {
    let mut why = Vec::new();
    if failed > 0 {
        why.push(format!("{failed} of {} cases cannot be measured", pairs.found.len()));
    }
    for (of, others) in [("label", "predictions"), ("prediction", "labels")] {
        let alone = pairs.alone.iter().filter(|(_, lacks)| *lacks == of).count();
        if alone > 0 {
            let have = if alone == 1 { "has" } else { "have" };
            why.push(format!("{alone} of the {others} {have} no {of}"));
        }
    }
    if why.is_empty() { Ok(()) } else { Err(Failure::new(why.join("; "))) }
}
