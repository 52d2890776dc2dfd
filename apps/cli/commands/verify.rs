//! `hearth data verify`: checks whether a data set is fit to train on, and with which recipe, and lists
//! what to fix.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hearth_data::layouts::Target;
use hearth_data::quality::{self, CaseReport, Finding, Kind, Severity, Verification, VerifyOptions};
use hearth_recipe::RecipeError;
use serde_json::json;

use super::inspect::{shape, voxel};
use crate::error::{Failure, Outcome};
use crate::out;
use crate::recipe::bundled;
use crate::run::{self, Fitness, Plan, fitness};
use crate::table::{self, Lean};
use crate::terminal::{self, bold, bytes, progress, thousands};

/// The maximum number of findings of a kind that are listed.
const LISTED: usize = 10;

/// Arguments of `hearth data verify`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The data set: what --data of `train` takes (a folder with a dataset.json, nnU-Net raw, BIDS,
    /// BraTS, a table, a list in JSON, DICOM, slides), a folder with imagesTr and labelsTr, or a folder
    /// of images; a recipe before it, bundled or a TOML file, also checks every case with the recipe's
    /// chain
    #[arg(value_name = "[RECIPE] PATH", num_args = 1..=2, required = true)]
    pub what: Vec<PathBuf>,
    /// Change one value of the recipe, such as training.batch_size=4
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// The modalities of an image, as in data.images of a recipe: columns of a table, keys of a list,
    /// ends of names [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub images: Vec<String>,
    /// The column, key or end of names of the labels, if it is not the usual one
    #[arg(long, value_name = "NAME")]
    pub label: Option<String>,
    /// Accept this fault of DICOM series, such as MissingSlices; may be given several times
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    pub accept: Vec<String>,
    /// Print a line for each case, too
    #[arg(long)]
    pub cases: bool,
    /// Print every finding, not only the first ten of a kind
    #[arg(long)]
    pub all: bool,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

/// Checks the data set; fails if it has an error.
pub fn run(args: &Args) -> Outcome {
    let (recipe, dir) = match args.what.as_slice() {
        [recipe, dir] => (Some(recipe), dir),
        [dir] | [dir, ..] => (None, dir),
        [] => return Err(Failure::new("name a data set")),
    };
    let plan = recipe.map(|recipe| plan(&recipe.to_string_lossy(), args)).transpose()?;
    if plan.is_none() && !args.sets.is_empty() {
        return Err(Failure::new("--set changes a recipe: name one before the data set"));
    }
    // Regions of slides are read by a step of the recipe, which a plain reader cannot replace.
    let regions = plan.as_ref().is_some_and(|plan| plan.recipe.learns().patches().is_some());
    let found = if regions { None } else { Some(quality::verify(dir, &options(args, plan.as_ref()))?) };
    let fitness = plan.as_ref().map(|plan| fitness(plan, dir)).transpose();
    let refused = match &fitness {
        Ok(_) => Vec::new(),
        Err(error) => vec![refusal(error)],
    };
    let fitness = fitness.ok().flatten();
    let mut findings: Vec<Finding> = found.iter().flat_map(|found| found.findings.clone()).collect();
    findings.extend(fitness.iter().flat_map(|fitness| fitness.findings.clone()));
    findings.extend(refused);
    findings.sort_by(|a, b| b.severity.cmp(&a.severity).then(a.kind.cmp(&b.kind)).then(a.case.cmp(&b.case)));
    if args.json {
        let mut all = found.as_ref().map_or_else(|| Ok(json!({ "dir": dir })), serde_json::to_value)?;
        all["findings"] = serde_json::to_value(&findings)?;
        if let Some(fitness) = &fitness {
            all["recipe"] = serde_json::to_value(fitness)?;
        }
        out!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        if let Some(found) = &found {
            print(found, args);
        }
        if let (Some(plan), Some(fitness)) = (&plan, &fitness) {
            suits(plan, fitness);
        }
        to_fix(dir, &findings, args.all);
    }
    match findings.iter().filter(|finding| finding.severity == Severity::Error).count() {
        0 => Ok(()),
        1 => Err(Failure::new("1 error in the data set; fix it, or exclude the case")),
        n => Err(Failure::new(format!("{n} errors in the data set; fix them, or exclude those cases"))),
    }
}

/// The recipe on the CPU, with the faults that `--accept` names.
fn plan(recipe: &str, args: &Args) -> Outcome<Plan> {
    let mut document = bundled::open(recipe)?;
    for set in &args.sets {
        document.set(set)?;
    }
    if !args.images.is_empty() {
        document.set(&format!("data.images={}", toml::Value::from(args.images.clone())))?;
    }
    hearth_models::run::accept_faults(&mut document, &args.accept)?;
    document.set_option("--device", "training.device", "cpu")?;
    terminal::plan(document)
}

/// The options for the plain check of the files, in part from the recipe.
fn options(args: &Args, plan: Option<&Plan>) -> VerifyOptions {
    let mut options = VerifyOptions::default();
    options.progress = progress();
    options.images.clone_from(&args.images);
    options.label.clone_from(&args.label);
    options.accept.clone_from(&args.accept);
    if let Some(plan) = plan {
        let wants = run::wants(&plan.recipe);
        if options.images.is_empty() {
            options.images = wants.images;
        }
        if let (None, Target::Image { name }) = (&options.label, wants.target) {
            options.label = name;
        }
    }
    options
}

/// The finding for a recipe that cannot open the data set.
fn refusal(error: &RecipeError) -> Finding {
    Finding::new(Severity::Error, Kind::Refused, error.line()).advice("change the data set, or the recipe (--set)")
}

fn print(found: &Verification, args: &Args) {
    let mut splits: BTreeMap<&str, usize> = BTreeMap::new();
    found.cases.iter().for_each(|case| *splits.entry(&case.split).or_default() += 1);
    let splits: Vec<String> = splits.iter().map(|(split, count)| format!("{count} {split}")).collect();
    let name = if found.name.is_empty() { found.dir.display().to_string() } else { found.name.clone() };
    out!("{}: {} cases ({})", bold(&name), found.cases.len(), splits.join(", "));
    images(&found.cases);
    labels(found);
    if args.cases {
        each_case(&found.cases);
    }
}

/// Prints how the recipe uses the data set.
fn suits(plan: &Plan, fitness: &Fitness) {
    let Fitness { training, validation, cases, classes, .. } = fitness;
    out!("");
    let read =
        if cases.len() < training + validation { format!(", {} of them read", cases.len()) } else { String::new() };
    let all = training + validation;
    let title = bold(&format!("recipe {}", plan.document.name()));
    out!("{title}: of {all} cases {training} train, {validation} validate{read}");
    let shapes = |shapes: Vec<[usize; 3]>| {
        let (least, most) = (shapes.iter().min(), shapes.iter().max());
        let words = |shape: &[usize; 3]| shape.map(|n| n.to_string()).join(" x ");
        match (least, most) {
            (Some(least), Some(most)) if least == most => words(least),
            (Some(least), Some(most)) => format!("{} to {}", words(least), words(most)),
            _ => "none".to_owned(),
        }
    };
    out!("  images after the chain: {}", shapes(cases.iter().map(|case| case.shape).collect()));
    let crops: Vec<_> = cases.iter().filter_map(|case| case.crops).collect();
    if let Some((each, _)) = crops.first() {
        out!("  trained on: {each} of {} a case", shapes(crops.iter().map(|(_, shape)| *shape).collect()));
    }
    if fitness.cache_bytes > 0 {
        let place = match plan.recipe.data.cache.dir() {
            Some(dir) => format!("in {}", dir.display()),
            None if plan.recipe.data.cache.on_device() => "on the device".to_owned(),
            None => "in memory".to_owned(),
        };
        out!("  cache: about {} {place}", bytes(fitness.cache_bytes));
    }
    let rows: Vec<Vec<String>> = classes
        .iter()
        .map(|class| vec![class.name.clone(), class.training.to_string(), class.validation.to_string()])
        .collect();
    show(&[("learned", Lean::Left), ("cases that train", Lean::Right), ("that validate", Lean::Right)], &rows);
}

/// Prints the minimum, median and maximum of the images' properties.
fn images(cases: &[CaseReport]) {
    let images: Vec<_> = cases.iter().filter_map(|case| case.image.as_ref()).collect();
    let axes = images.iter().map(|image| image.shape.len()).max().unwrap_or(0);
    let mut rows = Vec::new();
    for axis in 0..axes {
        let of = |get: &dyn Fn(&quality::Inspection) -> Option<f64>| -> Vec<f64> {
            let mut values: Vec<f64> = images.iter().filter_map(|image| get(image)).collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let voxels = of(&|image| image.shape.get(axis).map(|n| *n as f64));
        let sizes = of(&|image| image.spacing.get(axis).copied());
        let three = |values: &[f64], digits: usize| -> Vec<String> {
            let at = |place: usize| values.get(place).map_or_else(String::new, |v| format!("{v:.digits$}"));
            vec![at(0), at(values.len() / 2), at(values.len().saturating_sub(1))]
        };
        rows.push([vec![format!("voxels, axis {}", axis + 1)], three(&voxels, 0)].concat());
        rows.push([vec![format!("mm per voxel, axis {}", axis + 1)], three(&sizes, 3)].concat());
    }
    rows.sort_by_key(|row| row[0].starts_with("mm"));
    show(&[("images", Lean::Left), ("least", Lean::Right), ("median", Lean::Right), ("most", Lean::Right)], &rows);
}

fn show(columns: &[(&str, Lean)], rows: &[Vec<String>]) {
    if rows.is_empty() {
        return;
    }
    out!("");
    for (number, line) in table::lines(columns, rows).iter().enumerate() {
        out!("{}", if number == 0 { bold(line) } else { line.clone() });
    }
}

/// Prints the volume of each label.
fn labels(found: &Verification) {
    let mut by_value: BTreeMap<u32, (Vec<usize>, usize)> =
        found.names.keys().filter(|value| **value != 0).map(|value| (*value, (Vec::new(), 0))).collect();
    for label in found.cases.iter().flat_map(|case| &case.labels) {
        let (voxels, pieces) = by_value.entry(label.value).or_default();
        voxels.push(label.voxels);
        *pieces = (*pieces).max(label.components);
    }
    let rows: Vec<Vec<String>> = by_value
        .into_iter()
        .map(|(value, (mut voxels, pieces))| {
            voxels.sort_unstable();
            let at = |place: usize| voxels.get(place).map_or_else(|| "-".to_owned(), |n| thousands(*n as u64));
            let name = found.names.get(&value).map_or_else(String::new, |name| format!(" {name}"));
            vec![
                format!("{value}{name}"),
                voxels.len().to_string(),
                at(0),
                at(voxels.len() / 2),
                at(voxels.len().saturating_sub(1)),
                pieces.to_string(),
            ]
        })
        .collect();
    let columns = [
        ("label", Lean::Left),
        ("cases", Lean::Right),
        ("voxels: least", Lean::Right),
        ("median", Lean::Right),
        ("most", Lean::Right),
        ("pieces, at most", Lean::Right),
    ];
    show(&columns, &rows);
}

fn each_case(cases: &[CaseReport]) {
    let rows: Vec<Vec<String>> = cases
        .iter()
        .map(|case| {
            let labels: Vec<String> =
                case.labels.iter().map(|l| format!("{}: {}", l.value, thousands(l.voxels as u64))).collect();
            let image = case.image.as_ref();
            vec![
                case.case.clone(),
                case.split.clone(),
                image.map_or_else(|| "-".to_owned(), shape),
                image.map_or_else(|| "-".to_owned(), voxel),
                labels.join(", "),
            ]
        })
        .collect();
    let columns = [
        ("case", Lean::Left),
        ("split", Lean::Left),
        ("shape", Lean::Right),
        ("voxel (mm)", Lean::Left),
        ("voxels of labels", Lean::Left),
    ];
    show(&columns, &rows);
}

/// Prints the table of what to fix, with each advice once per kind.
fn to_fix(dir: &Path, findings: &[Finding], all: bool) {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut advice: Vec<(&str, &str)> = Vec::new();
    for group in findings.chunk_by(|a, b| (a.severity, a.kind) == (b.severity, b.kind)) {
        let shown = if all { group.len() } else { group.len().min(LISTED) };
        rows.extend(group[..shown].iter().map(|finding| line(dir, finding)));
        if shown < group.len() {
            let more = format!("and {} more ({})", group.len() - shown, group[0].kind.words());
            rows.push(vec![group[0].severity.word().to_owned(), String::new(), more]);
        }
        if let Some(text) = &group[0].advice {
            advice.push((group[0].kind.words(), text.as_str()));
        }
    }
    show(&[("to fix", Lean::Left), ("case", Lean::Left), ("what", Lean::Left)], &rows);
    let rows: Vec<Vec<String>> =
        advice.iter().map(|(kind, text)| vec![(*kind).to_owned(), (*text).to_owned()]).collect();
    show(&[("about", Lean::Left), ("do", Lean::Left)], &rows);
    let of = |severity: Severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let count = |severity: Severity, one: &str| match of(severity) {
        1 => format!("1 {one}"),
        n => format!("{n} {one}s"),
    };
    out!("");
    out!(
        "{}, {}, {}",
        count(Severity::Error, "error"),
        count(Severity::Warning, "warning"),
        count(Severity::Note, "note")
    );
}

fn line(dir: &Path, finding: &Finding) -> Vec<String> {
    let file = finding.file.as_ref().map(|file| file.strip_prefix(dir).unwrap_or(file).display().to_string());
    let what = match file {
        Some(file) => format!("{}  [{file}]", finding.what),
        None => finding.what.clone(),
    };
    vec![finding.severity.word().to_owned(), finding.case.clone().unwrap_or_default(), what]
}
