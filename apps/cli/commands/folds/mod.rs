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
use crate::recipe::{Document, Folds, PluginChanges, Validation};
use crate::run::{Ended, FoldList, Plan, Session, digest, gathered, same};
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
    check_continued(args, &plan, &list)?;
    list.check(&plan, &args.data)?;
    let chosen = chosen(args, list.count())?;
    Ok((document, list, chosen))
}

/// Refuses to continue other folds than those of the options, which `--continue` may repeat.
fn check_continued(args: &Args, plan: &Plan, list: &FoldList) -> Outcome {
    let of_file = args.fold_file().map(|file| FoldList::read(&file)).transpose()?;
    let same = match (&args.folds, of_file) {
        (_, Some(asked)) => are_same(&asked, list),
        (Some(count), None) => count.parse() == Ok(list.count()),
        (None, None) => true,
    };
    let dealt = plan.recipe.data.folds.as_ref();
    let kept = |given: Option<&str>, column: fn(&Folds) -> Option<&str>| {
        given.is_none() || dealt.is_some_and(|dealt| column(dealt) == given)
    };
    let options = [
        ("--folds", same),
        ("--group-by", kept(args.group_by.as_deref(), |folds| folds.group.as_deref())),
        ("--stratify-by", kept(args.stratify_by.as_deref(), |folds| folds.stratify.as_deref())),
    ];
    match options.into_iter().find(|(_, same)| !same) {
        None => Ok(()),
        Some((option, _)) => {
            let (out, count) = (args.out.display(), list.count());
            let what = format!("{option} asks for other folds than the {count} that {out} holds (see {LIST})");
            Err(Failure::new(format!("{what}: give another --out, or leave the option out")))
        }
    }
}

/// Whether two lists have the same cases in each fold.
fn are_same(one: &FoldList, other: &FoldList) -> bool {
    one.count() == other.count() && (0..one.count()).all(|fold| one.cases(fold) == other.cases(fold))
}

/// The preparation before the first fold starts.
struct Prepared {
    plan: Plan,
    list: FoldList,
    chosen: Vec<usize>,
    /// Whether the output folder already has the files of this cross-validation.
    begun: bool,
}

fn prepare(args: &Args, document: &Document) -> Outcome<Prepared> {
    let plan = terminal::plan(document.clone())?;
    let path = args.out.join(LIST);
    let (list, begun) = match path.is_file() {
        true => existing(args, &plan, &path)?,
        false => (first(args, &plan)?, false),
    };
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
        let reserved = (!are_begun(&args.out)).then(|| Reserved::new(&args.out)).transpose()?;
        folders::replace(&args.out.join(BASE), plan.recipe.to_toml()?)?;
        list.write(&args.out.join(LIST))?;
        Ok(reserved)
    };
    let reserved = prepared(ranks, make())?;
    let done = train_all(args, &document, &list, &chosen, ranks);
    // Other commands may train the other folds of this list.
    let alone = !begun && args.fold.is_empty() && is_first(ranks);
    if done.is_err() && alone && !any_started(&args.out, &list) {
        for name in [LIST, BASE] {
            // The next call replaces a file that cannot be removed.
            let _ = std::fs::remove_file(args.out.join(name));
        }
    }
    drop(reserved);
    done
}

/// Whether the training of a fold has started: its folder holds a run.
fn any_started(out: &Path, list: &FoldList) -> bool {
    (0..list.count()).any(|fold| folders::is_run(&folder(out, fold)))
}

/// Installs the Ctrl-C handler; a launcher passes the signal to each process.
fn listen(ranks: Option<&Ranks>) -> Outcome {
    if ranks.is_some() && !is_launched()? {
        let advice = "install MPI for its mpirun, or remove --ranks";
        return Err(Failure::new(format!("each rank trains folds of its own, in a process of its own: {advice}")));
    }
    interrupt::listen()
}

/// The folds of a new cross-validation.
fn first(args: &Args, plan: &Plan) -> Outcome<FoldList> {
    if !args.dry_run {
        folders::check_free(&args.out)?;
    }
    asked(args, plan)?.ok_or_else(|| {
        Failure::new(
            "--fold, --group-by and --stratify-by are about folds: add --folds N, or [data.folds] to the recipe",
        )
    })
}

/// Deals the folds of a recipe, or reads those of a file; `None` if neither is given.
fn asked(args: &Args, plan: &Plan) -> Outcome<Option<FoldList>> {
    if let Some(file) = args.fold_file() {
        if !file.is_file() {
            let what = "it is neither a number of folds nor a file";
            return Err(Failure::new(format!("--folds {}: {what}", file.display())));
        }
        return Ok(Some(FoldList::read(&file)?));
    }
    let folds: Option<&Folds> = plan.recipe.data.folds.as_ref();
    Ok(folds.map(|folds| FoldList::deal(plan, &args.data, folds)).transpose()?)
}

/// The folds of an output folder that has a list, and whether its files stay. Those of a call that ended before
/// a fold started are replaced.
fn existing(args: &Args, plan: &Plan, path: &Path) -> Outcome<(FoldList, bool)> {
    let list = FoldList::read(path)?;
    let new = if any_started(&args.out, &list) { None } else { asked(args, plan)? };
    match new {
        Some(new) => Ok((new, false)),
        None => Ok((again(args, plan, list)?, true)),
    }
}

/// Checks the folds of the output folder before one that is missing is trained.
fn again(args: &Args, plan: &Plan, list: FoldList) -> Outcome<FoldList> {
    let out = args.out.display();
    if args.fold.is_empty() {
        let advice = "add --resume to continue, --fold K for one that is missing, or give another folder";
        return Err(Failure::new(format!("{out} holds the folds of a cross-validation: {advice}")));
    }
    let (now, base) = (&plan.recipe, args.out.join(BASE));
    let before = hearth_files::read_to_string(&base).while_doing(|| format!("cannot read {}", base.display()))?;
    let [before, after] = [before, now.to_toml()?].map(|recipe| toml::from_str::<toml::Table>(&recipe));
    let (before, after) = (before?, after?);
    if comparable(&before) != comparable(&after) {
        let advice = "its folds are compared with each other; give another folder for another recipe";
        return Err(Failure::new(format!("{out} holds folds of another recipe (see {BASE}): {advice}")));
    }
    if let Some(folds) = &now.data.folds
        && folds.count != list.count()
        && args.fold_file().is_none()
    {
        let (asked, there) = (folds.count, list.count());
        return Err(Failure::new(format!("{out} holds {there} folds, not {asked}: give another folder")));
    }
    if (are_asked(args) || dealing(&before) != dealing(&after))
        && !asked(args, plan)?.is_none_or(|asked| are_same(&asked, &list))
    {
        let advice = "give another folder, or for these folds --fold K without options that assign cases";
        return Err(Failure::new(format!("{out} holds folds of other cases (see {LIST}): {advice}")));
    }
    Ok(list)
}

/// Whether the arguments say how cases are assigned to folds.
fn are_asked(args: &Args) -> bool {
    args.folds.is_some() || args.group_by.is_some() || args.stratify_by.is_some()
}

/// How a recipe assigns cases to folds.
fn dealing(recipe: &toml::Table) -> Option<&toml::Value> {
    recipe.get("data").and_then(|data| data.get("folds"))
}

/// A recipe without the keys that may differ between the folds of one cross-validation: the device, and
/// the request for folds, which the file replaces.
fn comparable(recipe: &toml::Table) -> toml::Table {
    let mut recipe = recipe.clone();
    for (table, keys) in [("training", &["device", "tune", "convolutions"][..]), ("data", &["folds", "workers"])] {
        if let Some(toml::Value::Table(table)) = recipe.get_mut(table) {
            keys.iter().for_each(|key| drop(table.remove(*key)));
        }
    }
    recipe
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
    let facts = [
        ("the recipe", digest(&document.root().to_toml().to_string())),
        ("the folds", digest(&serde_json::to_string(list)?)),
        ("the folds to train", format!("{chosen:?}")),
        ("the folder", args.out.display().to_string()),
    ];
    prepared(ranks, same(ranks, facts))?;
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
    let started = folders::is_run(&run);
    if started && ended(args, &run, &terminal::plan(document.clone())?)? {
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
        if any_started(&args.out, list) {
            let (data, out) = (args.data.display(), args.out.display());
            note!("to continue with all folds: hearth train --data {data} --out {out} --resume");
        }
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

/// Whether a run has ended, and nothing is requested that continues it.
fn ended(args: &Args, run: &Path, plan: &Plan) -> Outcome<bool> {
    let text = hearth_files::read_to_string(run.join("summary.json")).unwrap_or_default();
    let summary: Value = serde_json::from_str(&text).unwrap_or_default();
    let through = summary["epochs"].as_u64().is_some_and(|epochs| epochs >= plan.recipe.training.epochs);
    Ok(match summary["outcome"].as_str() {
        Some("completed") => through,
        Some("terminated") => {
            let changes = PluginChanges::of(&args.without, &args.plugins);
            Ended::of_run(plan, &folders::open_run(run)?, &changes)?.is_some()
        }
        _ => false,
    })
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
