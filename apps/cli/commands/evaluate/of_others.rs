//! `hearth evaluate` for other models: nnU-Net, TotalSegmentator, MONAI bundles, packages.
//!
//! They have no record of their training cases, and most have no recipe that names metrics: every labelled case
//! is predicted as by `hearth predict`, and measured by its Dice on the image's own grid.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hearth_data::Item;
use hearth_data::layouts::{self, Target, Wants};
use hearth_files::Scratch;
use hearth_models::cases::Sought;
use hearth_models::job::Job;
use hearth_models::model::{Card, Model};
use hearth_models::open::{Family, open};
use hearth_models::writers::OutputOptions;
use hearth_package::Package;
use hearth_registry::unknown;
use hearth_train::Ranks;

use super::Args;
use crate::commands::metrics::{Classes, Pair, Rules, Spec, Table, measure_case};
use crate::error::{Context, Failure, Outcome};
use crate::ranks::is_first;
use crate::run::outputs::Outputs;
use crate::sharing::prepared;
use crate::terminal::Quiet;
use crate::{note, out};

/// Whether a path is a model without the folder of a run.
pub fn is_one(path: &Path) -> bool {
    let stored = hearth_models::open::stored(path);
    let path = stored.as_deref().unwrap_or(path);
    Family::of(path, false) != Family::Run || Package::is_one(path)
}

/// Predicts every labelled case into a temporary folder, and measures and prints the results.
pub fn run(args: &Args, ranks: Option<&Ranks>) -> Outcome {
    check(args, ranks)?;
    let files = args.out.as_deref().map(|dir| Files::claim(dir, args.overwrite)).transpose()?;
    let model = prepared(ranks, open(&args.run, &args.opening.options()))?;
    let card = model.card();
    if !card.kind.is_map() {
        let predicts = card.kind.words();
        return Err(Failure::new(format!("this {} predicts {predicts}: labels are measured", card.family)));
    }
    let items = prepared(ranks, labelled(args, card))?;
    let names: BTreeSet<String> = items.iter().map(|item| item.case.clone()).collect();
    if is_first(ranks) {
        let what = "the model does not say which cases it was trained on, and some may be among them";
        note!("{}: {} labelled cases; {what}", card.description, items.len());
    }
    let folder = Scratch::new("hearth-evaluate-");
    let folder = folder.while_doing(|| "cannot make a temporary folder (TMPDIR)".to_owned())?;
    let predicted = job(&*model, folder.path(), &names).run(std::slice::from_ref(&args.data));
    let report = measured(args, card, &items, folder.path())?;
    if is_first(ranks) {
        files.map_or(Ok(()), |files| files.write(&report))?;
        print(args, &report)?;
    }
    predicted?;
    match report.failed.len() {
        0 => Ok(()),
        failed => Err(Failure::new(format!("{failed} of {} cases cannot be measured", items.len()))),
    }
}

/// Refuses options that need a recipe.
fn check(args: &Args, ranks: Option<&Ranks>) -> Outcome {
    let given = [
        ("--mean, --vote, --staple and --weights", args.merge.given()),
        ("several models", !args.more.is_empty()),
        ("several ranks (--ranks, --hosts, a launcher)", ranks.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((name, _)) => {
            let what = "are for folders of runs; another model is evaluated alone, by one rank";
            Err(Failure::new(format!("{name} {what}: remove it")))
        }
    }
}

fn job<'a>(model: &'a dyn Model, out: &'a Path, only: &'a BTreeSet<String>) -> Job<'a> {
    Job {
        model,
        out,
        command: "evaluate",
        outputs: OutputOptions::default(),
        overwrite: false,
        json: false,
        ranks: None,
        results: &Quiet,
        sought: Sought::default(),
        records_beside: false,
        only: Some(only),
    }
}

/// The requested labelled cases of the data set.
fn labelled(args: &Args, card: &Card) -> Outcome<Vec<Item>> {
    let layout = layouts::recognize(&args.data)?;
    let images = if card.channels.len() > 1 { card.channels.clone() } else { Vec::new() };
    let wants = Wants { images, target: Target::label(), ..Wants::default() };
    let list = layout.read(&args.data, &wants).while_doing(|| args.data.display().to_string())?;
    let mut items = list.labelled;
    let known: Vec<&str> = items.iter().map(|item| item.case.as_str()).collect();
    if let Some(name) = args.cases.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(Failure::new(format!("--cases: {}", unknown("case", name, &known))));
    }
    if !args.cases.is_empty() {
        items.retain(|item| args.cases.contains(&item.case));
    }
    if items.is_empty() {
        return Err(Failure::new(format!("--data {}: it has no labelled case", args.data.display())));
    }
    Ok(items)
}

fn measured(args: &Args, card: &Card, items: &[Item], folder: &Path) -> Outcome<Table> {
    let specs = [Spec::read("dice")?];
    let named: Vec<String> = card.file_labels.iter().map(|(name, value)| format!("{value}={name}")).collect();
    let classes = Classes::read(&named, false)?;
    let rules = Rules { empty: args.empty.rule(), ignore: None };
    let mut table = Table::new(specs.iter().map(|spec| spec.text.clone()).collect());
    for item in items {
        let pred = folder.join(format!("{}{}", item.case.replace(['/', '\\'], "_"), card.ending));
        let label = item.files.get("label").cloned();
        let found = match label.filter(|_| pred.is_file()) {
            None => Err(Failure::new("it was not predicted, or its label is no file")),
            Some(label) => measure_case(&Pair { case: item.case.clone(), pred, label }, &specs, &classes, rules),
        };
        match found {
            Ok(case) => table.add(&item.case, case),
            Err(failure) => {
                note!("{}: {}", item.case, failure.line());
                table.failed.push((item.case.clone(), failure.line()));
            }
        }
    }
    Ok(table)
}

/// The files of `--out`, claimed before the work.
struct Files {
    outputs: Outputs,
    json: PathBuf,
    csv: PathBuf,
}

impl Files {
    fn claim(dir: &Path, overwrite: bool) -> Outcome<Self> {
        let mut outputs = Outputs::new("evaluate", overwrite);
        let [json, csv] = ["report.json", "report.csv"].map(|name| dir.join(name));
        [&json, &csv].into_iter().try_for_each(|file| outputs.claim(file))?;
        std::fs::create_dir_all(dir).while_doing(|| format!("cannot make the folder {}", dir.display()))?;
        Ok(Self { outputs, json, csv })
    }

    fn write(&self, table: &Table) -> Outcome {
        self.outputs.write(&self.json, serde_json::to_string_pretty(&table.to_json(&[]))? + "\n")?;
        self.outputs.write(&self.csv, table.to_csv().join("\n") + "\n")?;
        note!("report  {}, {}", self.json.display(), self.csv.display());
        Ok(())
    }
}

fn print(args: &Args, table: &Table) -> Outcome {
    if args.json {
        out!("{}", serde_json::to_string_pretty(&table.to_json(&[]))?);
        return Ok(());
    }
    let lines = if args.csv { table.to_csv() } else { table.to_table() };
    lines.iter().for_each(|line| out!("{line}"));
    Ok(())
}
