//! `hearth train --folds`: trains a run for each fold of a cross-validation.

mod table;

use std::path::{Path, PathBuf};

use hearth_train::Ranks;
use serde_json::Value;

use crate::commands::dry_run::dry_run;
use crate::commands::evaluate;
use crate::commands::train::{self, Args};
use crate::error::{Context, Failure, Outcome};
use crate::folders::{self, Reserved};
use crate::interrupt;
use crate::ranks::{is_first, is_launched};
use crate::recipe::{Document, Folds, Validation};
use crate::run::{FoldList, Plan, Session, gathered};
use crate::sharing::{own, prepared};
use crate::terminal::{self, bold};
use crate::{note, out};

pub use table::write as write_table;

/// The list of folds, in the output folder.
const LIST: &str = "folds.json";
/// The recipe of all folds, in the output folder.
const BASE: &str = "base.toml";
/// The results of a fold's best checkpoint on its own cases, in the fold's folder.
pub const VALIDATION: &str = "validation.json";

/// Whether the arguments ask for folds.
pub fn are_meant(args: &Args) -> bool {
    args.folds.is_some() || !args.fold.is_empty() || (args.resume && are_begun(&args.out))
}

/// Whether an output folder has folds.
pub fn are_begun(out: &Path) -> bool {
    out.join(LIST).is_file()
}

/// Whether a recipe has folds.
pub fn are_in(document: &Document) -> bool {
    document.root().get("data").is_some_and(|data| data.get("folds").is_some())
}

/// Resumes folds that were started, and starts the others.
pub fn resume(args: &Args, ranks: Option<&Ranks>) -> Outcome {
    let (document, list, chosen) = prepared(ranks, begun(args))?;
    listen(ranks)?;
    train_all(args, &document, &list, &chosen, ranks)
}

/// Reads the folds that were started.
fn begun(args: &Args) -> Outcome<(Document, FoldList, Vec<usize>)> {
    let list = args.out.join(LIST);
    if !list.is_file() {
        let (out, advice) = (args.out.display(), "without --resume, --folds starts them");
        return Err(Failure::new(format!("{out} holds no folds to resume: there is no {LIST} in it; {advice}")));
    }
    let given = args.folds.is_some() || args.group_by.is_some() || args.stratify_by.is_some();
    if given && !args.continues {
        let what = "--folds, --group-by and --stratify-by cannot be given with --resume";
        return Err(Failure::new(format!("{what}: the folds are those of {}", list.display())));
    }
    args.check_resume_options()?;
    let mut document = Document::open(&args.out.join(BASE))?;
    args.set_running(&mut document)?;
    let (plan, list) = (terminal::plan(document.clone())?, FoldList::read(&list)?);
    list.check(&plan, &args.data)?;
    let chosen = chosen(args, list.count())?;
    Ok((document, list, chosen))
}

/// The preparation before the first fold starts.
struct Prepared {
    plan: Plan,
    list: FoldList,
    chosen: Vec<usize>,
    /// Whether the output folder already has folds of this cross-validation.
    begun: bool,
}

fn prepare(args: &Args, document: &Document) -> Outcome<Prepared> {
    let plan = terminal::plan(document.clone())?;
    let path = args.out.join(LIST);
    let begun = path.is_file();
    let list = if begun { again(args, &plan, &path)? } else { first(args, &plan)? };
    list.check(&plan, &args.data)?;
    let chosen = chosen(args, list.count())?;
    if args.dry_run {
        return Ok(Prepared { plan, list, chosen, begun });
    }
    for fold in &chosen {
        let run = folder(&args.out, *fold);
        if run.exists() {
            let advice = "add --resume to continue it, or give another --fold or --out";
            return Err(Failure::new(format!("{} exists already: {advice}", run.display())));
        }
    }
    Ok(Prepared { plan, list, chosen, begun })
}

/// Trains the folds of a recipe.
pub fn run(args: &Args, document: Document, ranks: Option<&Ranks>) -> Outcome {
    let Prepared { plan, list, chosen, begun } = prepared(ranks, prepare(args, &document))?;
    if is_first(ranks) {
        train::say_of_previous_stage(&plan, &args.data)?;
    }
    if args.dry_run {
        for fold in 0..list.count() {
            out!("fold {fold}: {} cases validate: {}", list.cases(fold).len(), some(list.cases(fold)));
        }
        return dry_run(&of_fold(&document, &list, chosen[0], ranks)?, &args.data, &args.plugins, args.defaults);
    }
    listen(ranks)?;
    let make = || -> Outcome<Option<Reserved>> {
        if begun || !is_first(ranks) {
            return Ok(None);
        }
        let reserved = Reserved::new(&args.out)?;
        folders::replace(&args.out.join(BASE), plan.recipe.to_toml()?)?;
        list.write(&args.out.join(LIST))?;
        Ok(Some(reserved))
    };
    let reserved = prepared(ranks, make())?;
    let done = train_all(args, &document, &list, &chosen, ranks);
    drop(reserved);
    done
}

/// Installs the Ctrl-C handler; a launcher passes the signal to each process.
fn listen(ranks: Option<&Ranks>) -> Outcome {
    if ranks.is_some() && !is_launched()? {
        let advice = "install MPI for its mpirun, or remove --ranks";
        return Err(Failure::new(format!("each rank trains folds of its own, in a process of its own: {advice}")));
    }
    interrupt::listen()
}

/// Deals the folds of a recipe, or reads those of a file.
fn first(args: &Args, plan: &Plan) -> Outcome<FoldList> {
    if !args.dry_run {
        folders::check_free(&args.out)?;
    }
    if let Some(file) = args.fold_file() {
        if !file.is_file() {
            let what = "it is neither a number of folds nor a file";
            return Err(Failure::new(format!("--folds {}: {what}", file.display())));
        }
        return Ok(FoldList::read(&file)?);
    }
    let folds: &Folds = plan.recipe.data.folds.as_ref().ok_or_else(|| {
        Failure::new(
            "--fold, --group-by and --stratify-by are about folds: add --folds N, or [data.folds] to the recipe",
        )
    })?;
    Ok(FoldList::deal(plan, &args.data, folds)?)
}

/// Reads the folds of the output folder, to train one that is missing.
fn again(args: &Args, plan: &Plan, path: &Path) -> Outcome<FoldList> {
    let out = args.out.display();
    if args.fold.is_empty() {
        let advice = "add --resume to continue, --fold K for one that is missing, or give another folder";
        return Err(Failure::new(format!("{out} holds the folds of a cross-validation: {advice}")));
    }
    let now = &plan.recipe;
    let base = args.out.join(BASE);
    let before = hearth_files::read_to_string(&base).while_doing(|| format!("cannot read {}", base.display()))?;
    if comparable(&before)? != comparable(&now.to_toml()?)? {
        let advice = "its folds are compared with each other; give another folder for another recipe";
        return Err(Failure::new(format!("{out} holds folds of another recipe (see {BASE}): {advice}")));
    }
    let list = FoldList::read(path)?;
    if let Some(folds) = &now.data.folds
        && folds.count != list.count()
        && args.fold_file().is_none()
    {
        let (asked, there) = (folds.count, list.count());
        return Err(Failure::new(format!("{out} holds {there} folds, not {asked}: give another folder")));
    }
    Ok(list)
}

/// A recipe without the keys that may differ between the folds of one cross-validation: the device, and
/// the request for folds, which the file replaces.
fn comparable(recipe: &str) -> Outcome<toml::Table> {
    let mut recipe: toml::Table = toml::from_str(recipe)?;
    for (table, keys) in [("training", &["device", "tune"][..]), ("data", &["folds", "workers"])] {
        if let Some(toml::Value::Table(table)) = recipe.get_mut(table) {
            keys.iter().for_each(|key| drop(table.remove(*key)));
        }
    }
    Ok(recipe)
}

/// The folds to train.
fn chosen(args: &Args, count: usize) -> Outcome<Vec<usize>> {
    if let Some(fold) = args.fold.iter().find(|fold| **fold >= count) {
        return Err(Failure::new(format!("--fold {fold}: there are {count} folds, from 0 to {}", count - 1)));
    }
    let mut chosen = if args.fold.is_empty() { (0..count).collect() } else { args.fold.clone() };
    chosen.sort_unstable();
    chosen.dedup();
    Ok(chosen)
}

fn folder(out: &Path, fold: usize) -> PathBuf {
    out.join(format!("fold{fold}"))
}

/// The plan of one fold.
fn of_fold(document: &Document, list: &FoldList, fold: usize, ranks: Option<&Ranks>) -> Outcome<Plan> {
    let mut plan = terminal::plan_of_rank(document.clone(), ranks)?;
    plan.silent = !is_first(ranks);
    plan.recipe.data.folds = None;
    plan.recipe.data.validation = Validation::Cases(list.cases(fold).to_vec());
    Ok(plan)
}

/// Trains the folds; each of several ranks has its own. The table is made when all are done.
fn train_all(args: &Args, document: &Document, list: &FoldList, chosen: &[usize], ranks: Option<&Ranks>) -> Outcome {
    let mut mine = own(ranks, chosen.len()).map(|place| chosen[place]);
    let trained = mine.try_for_each(|fold| train_fold(args, document, list, fold, ranks));
    if let Some(ranks) = ranks {
        interrupt::waiting();
        let stopped = trained.as_ref().is_err_and(Failure::is_interruption);
        if gathered(ranks, "the other ranks' folds", &stopped)?.contains(&true) {
            return Err(Failure::interrupted());
        }
    }
    prepared(ranks, trained)?;
    if is_first(ranks) { write_table(&args.out, list) } else { Ok(()) }
}

fn train_fold(args: &Args, document: &Document, list: &FoldList, fold: usize, ranks: Option<&Ranks>) -> Outcome {
    let count = list.count();
    let run = folder(&args.out, fold);
    let started = run.join("recipe.toml").is_file();
    if started && ended(&run, &terminal::plan(document.clone())?) {
        if !run.join(VALIDATION).is_file() {
            validate(args, document, &run)?;
        }
        note!("fold {fold} of {count} is complete: {}", run.display());
        return Ok(());
    }
    note!("{}", bold(&format!("fold {fold} of {count} -> {}", run.display())));
    let trained = match started {
        true => go_on(args, &run, ranks),
        false => start(args, of_fold(document, list, fold, ranks)?, &run),
    };
    if let Err(failure) = trained {
        let out = args.out.display();
        note!("to continue with all folds: hearth train --data {} --out {out} --resume", args.data.display());
        return Err(failure.context(format!("fold {fold}")));
    }
    validate(args, document, &run)
}

fn start(args: &Args, plan: Plan, run: &Path) -> Outcome {
    let mut session = Session::new(plan, &args.data, &args.plugins)?;
    interrupt::running(session.interrupt_flag());
    session.start(run)?;
    train::finish(&mut session)
}

fn go_on(args: &Args, run: &Path, ranks: Option<&Ranks>) -> Outcome {
    let mut document = Document::open(&run.join("recipe.toml"))?;
    args.set_running(&mut document)?;
    let mut plan = terminal::plan_of_rank(document, ranks)?;
    plan.silent = !is_first(ranks);
    train::resume(plan, args, run, None)
}

/// Whether a run has ended, and no more epochs are requested.
fn ended(run: &Path, plan: &Plan) -> bool {
    let text = hearth_files::read_to_string(run.join("summary.json")).unwrap_or_default();
    let summary: Value = serde_json::from_str(&text).unwrap_or_default();
    let through = summary["epochs"].as_u64().is_some_and(|epochs| epochs >= plan.recipe.training.epochs);
    summary["outcome"] == "terminated" || (summary["outcome"] == "completed" && through)
}

/// Measures the best checkpoint of a fold on its own cases.
fn validate(args: &Args, document: &Document, run: &Path) -> Outcome {
    let device = document.root().get("training").and_then(|training| training.text("device")).unwrap_or("auto");
    let found = evaluate::evaluate(&evaluate::Args::new(run, &args.data, device, args.tune.as_deref()))?;
    folders::replace(&run.join(VALIDATION), serde_json::to_string_pretty(&found.to_json())? + "\n")
        .while_doing(|| format!("cannot keep what {} reaches", run.display()))
}

/// The first few cases of a list.
fn some(cases: &[String]) -> String {
    let more = cases.len().saturating_sub(6);
    let shown = cases[..cases.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}
