//! `hearth predict --held-out`: predicts the labelled cases of a data set, each with the run that did
//! not train on it. The second stage of a cascade learns from such labels: those of cases that a run
//! trained on are better than the labels of new images.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hearth_registry::counted;
use hearth_train::Ranks;

use crate::commands::merging;
use crate::commands::predict::{Args, kept};
use crate::error::{Context, Failure, Outcome};
use crate::folders::open_run;
use crate::note;
use crate::ranks::is_first;
use crate::run::held_out;
use crate::sharing::prepared;
use hearth_models::cases::labelled;
use hearth_models::job::{Job, Tables};
use hearth_models::model::{Kind, Model};
use hearth_models::open::open;

/// Predicts fold by fold. A failing case or fold does not stop the others.
pub fn run(args: &Args, ranks: Option<&Ranks>) -> Outcome {
    let folds = prepared(ranks, folds(&args.run))?;
    if args.seed.is_some() {
        return Err(Failure::new("--seed is the seed of generated images: remove it"));
    }
    let (mut failed, mut tables, mut begun): (Vec<String>, _, _) = (Vec::new(), Tables::default(), false);
    for (place, (run, cases)) in folds.iter().enumerate() {
        let of_fold = Args { run: run.clone(), held_out: false, ..args.clone() };
        let mut fold = || -> Outcome {
            let model = prepared(ranks, opened(&of_fold, ranks))?;
            if place == 0 {
                report_others(args, &*model, &folds, ranks)?;
            }
            if is_first(ranks) {
                note!("{}: {} held out", run.display(), counted(cases.len(), "case"));
            }
            begun = true;
            predict_fold(&of_fold, &*model, cases, &mut tables, ranks)
        };
        match fold() {
            // What stops the first fold at its start stops all of them.
            Err(failure) if begun && !failure.is_interruption() => {
                failed.push(format!("{}: {}", run.display(), failure.line()));
            }
            done => done?,
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::new(failed.join("\n"))) }
}

/// Reports the labelled cases that no run held out.
fn report_others(
    args: &Args,
    model: &dyn Model,
    folds: &[(PathBuf, BTreeSet<String>)],
    ranks: Option<&Ranks>,
) -> Outcome {
    let others = prepared(ranks, others(args, model, folds))?;
    if is_first(ranks) && !others.is_empty() {
        let (count, first) = (counted(others.len(), "labelled case"), &others[0]);
        note!("{count} are held out by none of these runs and not predicted, {first} among them");
    }
    Ok(())
}

/// Predicts the cases of a fold with the run that held them out; the tables have those of all folds.
fn predict_fold(
    args: &Args,
    model: &dyn Model,
    cases: &BTreeSet<String>,
    tables: &mut Tables,
    ranks: Option<&Ranks>,
) -> Outcome {
    let job = Job { only: Some(cases), ..args.outputs(model, ranks)? };
    let done = job.run_fold(&args.images, tables);
    kept(&job, done)
}

/// The runs, and the cases that each held out; no case may be held out twice.
fn folds(given: &Path) -> Outcome<Vec<(PathBuf, BTreeSet<String>)>> {
    let mut all: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut folds = Vec::new();
    for run in merging::runs(&[given.to_owned()])? {
        let cases: BTreeSet<String> = held_out(&open_run(&run)?)?.into_iter().collect();
        if cases.is_empty() {
            return Err(Failure::new(format!("{}: this run held out no case", run.display())));
        }
        for case in &cases {
            if let Some(other) = all.insert(case.clone(), run.clone()) {
                let what = format!("{} and {} both held out the case {case}", other.display(), run.display());
                return Err(Failure::new(format!("{what}: they are not folds of one cross-validation")));
            }
        }
        folds.push((run, cases));
    }
    Ok(folds)
}

fn opened(args: &Args, ranks: Option<&Ranks>) -> Outcome<Box<dyn Model>> {
    let model = open(&args.run, &args.open_options(ranks)).while_doing(|| args.run.display().to_string())?;
    if matches!(model.card().kind, Kind::Generated | Kind::SlideMap) || model.as_run().is_none() {
        let what = "--held-out is for runs that predict volumes or pictures, and numbers of them";
        return Err(Failure::new(format!("{}: {what}", args.run.display())));
    }
    Ok(model)
}

/// The labelled cases that no run held out. All cases that were held out must be among the images.
fn others(args: &Args, model: &dyn Model, folds: &[(PathBuf, BTreeSet<String>)]) -> Outcome<Vec<String>> {
    let Some(trained) = model.as_run() else { return Ok(Vec::new()) };
    let recipe = &trained.plan.recipe;
    let (mut known, mut with_labels) = (BTreeSet::new(), Vec::new());
    for given in &args.images {
        known.extend(model.cases(given, args.files.sought())?.iter().map(|case| case.name()));
        with_labels.extend(labelled(given, recipe).into_iter().map(|item| item.case));
    }
    for (run, cases) in folds {
        if let Some(case) = cases.iter().find(|case| !known.contains(*case)) {
            let what = format!("{} held out the case {case}, which is not among the images of -i", run.display());
            return Err(Failure::new(format!("{what}: give the data set that it was trained with")));
        }
    }
    with_labels.retain(|case| !folds.iter().any(|(_, cases)| cases.contains(case)));
    Ok(with_labels)
}
