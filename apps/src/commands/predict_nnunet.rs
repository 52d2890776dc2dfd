//! `hearth predict` with a trained model of nnU-Net v2.

use std::path::{Path, PathBuf};
use std::time::Instant;

use hearth_recipe::nnunet::{Case, Folds, ModelFolder, NnunetEnsemble, NnunetOptions};
use hearth_train::{Precision, Ranks};
use serde_json::{Value, json};

use crate::commands::predict::Args;
use crate::commands::predict_lists::{FAILED, Said, as_json, list_failed, skipped};
use crate::error::{Context, Failure, Outcome};
use crate::note;
use crate::ranks::is_first;
use crate::run::StageSeconds;
use crate::run::outputs::{KEY, Outputs, is_made_of, is_whole, sum};
use crate::sharing::{Done, own, prepared};
use crate::terminal::{progress, seconds, speaks};

/// The word of the records of results.
const COMMAND: &str = "predict";

/// Options for trained models of nnU-Net v2 alone.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Options for the folder of an nnU-Net v2 model")]
pub struct NnunetArgs {
    /// Folds whose outputs are averaged: 0 1 2, or all [default: those that the folder has]
    #[arg(long, value_name = "FOLD", num_args = 1..)]
    pub folds: Vec<String>,
    /// Distance of two tiles as a share of the patch [default: 0.5]
    #[arg(long, value_name = "SHARE")]
    pub step_size: Option<f64>,
    /// Predict each tile once, and not mirrored along each axis, too
    #[arg(long)]
    pub no_mirroring: bool,
    /// The type in which the network computes: fp32, bf16 [default: fp32]
    #[arg(long, value_name = "TYPE")]
    pub precision: Option<String>,
    /// nnU-Net's postprocessing.pkl or postprocessing.json, applied to the labels
    #[arg(long, value_name = "FILE")]
    pub postprocessing: Option<PathBuf>,
    /// Other models of the same data set, whose probabilities are averaged with this one's
    #[arg(long, value_name = "MODEL", num_args = 1..)]
    pub with: Vec<PathBuf>,
    /// Of a folder of several models, as TotalSegmentator's: only these classes, by the models that have
    /// them
    #[arg(long, value_name = "CLASS", num_args = 1..)]
    pub roi_subset: Vec<String>,
    /// Of a folder with models of several tasks of TotalSegmentator: the task, as total or kidney_cysts
    #[arg(long, value_name = "TASK")]
    pub task: Option<String>,
    /// Of a task of TotalSegmentator: its fast or fastest models, its small or big ones, or as fast-small
    /// [default: the finest that are there, and big ones]
    #[arg(long, value_name = "VARIANT")]
    pub variant: Option<String>,
    /// Of a folder of several models: also write NAME_statistics.json, the volume in mm³ and the mean
    /// intensity of each class; 0 for classes within 3 voxels of the image's border, which may cut them
    #[arg(long)]
    pub statistics: bool,
    /// With --statistics: measure classes near the image's border, too
    #[arg(long, requires = "statistics")]
    pub stats_include_incomplete: bool,
}

impl NnunetArgs {
    /// Fails where any is given for a model that is none of nnU-Net's.
    pub fn check_unused(&self) -> Outcome {
        let given = [
            ("--folds", !self.folds.is_empty()),
            ("--step-size", self.step_size.is_some()),
            ("--no-mirroring", self.no_mirroring),
            ("--precision", self.precision.is_some()),
            ("--postprocessing", self.postprocessing.is_some()),
            ("--with", !self.with.is_empty()),
            ("--roi-subset", !self.roi_subset.is_empty()),
            ("--task", self.task.is_some()),
            ("--variant", self.variant.is_some()),
            ("--statistics", self.statistics),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((name, _)) => {
                let what = "is for folders of nnU-Net v2 models, which hold plans.json, dataset.json and fold_0";
                Err(Failure::new(format!("{name} {what}: remove it, or give such a folder")))
            }
        }
    }
}

/// Whether the argument of `hearth predict` is a model of nnU-Net.
pub fn is_one(path: &Path) -> bool {
    ModelFolder::is_one(path)
}

/// A case, and the files of its results.
struct Task {
    case: Case,
    labels: PathBuf,
    /// Probabilities, and what nnU-Net reads beside them.
    probabilities: Option<[PathBuf; 2]>,
    key: Value,
}

/// What is known before the first case is read.
struct Planned {
    outputs: Outputs,
    tasks: Vec<Task>,
    /// Files that are written once, with their content.
    about: Vec<(PathBuf, String)>,
}

/// Predicts every case of the given folders. An error in one does not stop the others.
pub fn run(args: &Args, ranks: Option<&Ranks>) -> Outcome {
    check(args)?;
    let of_several = [
        ("--roi-subset", !args.nnunet.roi_subset.is_empty()),
        ("--task", args.nnunet.task.is_some()),
        ("--variant", args.nnunet.variant.is_some()),
        ("--statistics", args.nnunet.statistics),
    ];
    if let Some((name, _)) = of_several.into_iter().find(|(_, given)| *given) {
        let what = "is for a folder of several models, as TotalSegmentator's; this is one model: remove it";
        return Err(Failure::new(format!("{name} {what}")));
    }
    let start = Instant::now();
    let opened = prepared(ranks, open(args))?;
    let first = opened.first();
    if ranks.is_none_or(|ranks| ranks.rank() == 0) {
        let members = opened.members().iter().map(|member| {
            let folds = member.checkpoints.len();
            format!("{} ({folds} fold{})", member.configuration.name, if folds == 1 { "" } else { "s" })
        });
        let members: Vec<String> = members.collect();
        let (set, time) = (&first.folder.plans.dataset_name, seconds(start.elapsed().as_secs_f64()));
        note!("{set}: {}, loaded in {time}", members.join(", "));
    }
    let Planned { outputs, tasks, about } = prepared(ranks, tasks(args, &opened))?;
    if is_first(ranks) {
        about.into_iter().try_for_each(|(path, text)| outputs.write(&path, text))?;
    }
    let (start, count) = (Instant::now(), tasks.len());
    let mine: Vec<usize> = own(ranks, count).collect();
    let mut done: Done<()> = Done::default();
    for (before, place) in mine.iter().enumerate() {
        let task = &tasks[*place];
        let left = match before {
            0 => String::new(),
            _ => {
                let each = start.elapsed().as_secs_f64() / before as f64;
                format!("  {} left", seconds(each * (mine.len() - before) as f64))
            }
        };
        if count > 1 {
            note!("case {} of {count}: {}{left}", place + 1, task.case.name);
        }
        let (mut said, mut spent) = (Said::new(args.files.json), StageSeconds::default());
        let predicted = predict(args, &opened, task, &outputs, &mut said, &mut spent);
        // Reading is a part of predicting here.
        let spent = json!({ "predict": spent.predict, "write": spent.write });
        said.end_of(&task.case.name, as_json(task.case.files.iter()), spent, predicted.as_ref().err());
        if let Err(failure) = predicted {
            done.fail(*place, task.case.name.clone(), &failure);
        }
    }
    let done = done.of_all(ranks)?;
    if is_first(ranks) && (count > 1 || args.out.join(FAILED).exists()) {
        list_failed(&args.out, COMMAND, &outputs, &done.failed)?;
    }
    done.check(ranks, count, "cases")
}

/// Refuses what other models have and these do not.
pub fn check(args: &Args) -> Outcome {
    let refused = [
        ("--count", args.count.is_some()),
        ("--seed", args.seed.is_some()),
        ("--tta", args.opening.tta.is_some()),
        ("--uncertainty", args.uncertainty),
        ("--dicom-seg", args.files.regions.dicom_seg),
        ("--rtstruct", args.files.regions.rtstruct),
        ("--dicom-sr", args.files.regions.dicom_sr),
        ("--surfaces", args.files.regions.surfaces.is_some()),
        ("--series", args.files.series.is_some()),
        ("--picture", args.files.picture),
        ("--accept", !args.opening.accept.is_empty()),
        ("--classes", args.opening.classes.is_some()),
    ];
    match refused.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some(("--tta", _)) => {
            let advice = "its checkpoints say which axes are mirrored, and --no-mirroring turns that off";
            Err(Failure::new(format!("--tta is not for a model of nnU-Net: {advice}")))
        }
        Some((name, _)) => Err(Failure::new(format!("{name} is not for a model of nnU-Net: remove it"))),
    }
}

/// How the models of a call predict.
pub fn options(args: &Args) -> Outcome<NnunetOptions> {
    let given = &args.nnunet;
    let checkpoint = match args.opening.checkpoint.as_deref().unwrap_or("final") {
        word @ ("final" | "best" | "latest") => format!("checkpoint_{word}.pth"),
        name => name.to_owned(),
    };
    let precision = given.precision.as_deref().unwrap_or("fp32").parse::<Precision>();
    Ok(NnunetOptions {
        folds: if given.folds.is_empty() { Folds::Found } else { Folds::These(given.folds.clone()) },
        checkpoint,
        step_size: given.step_size.unwrap_or(0.5),
        mirroring: !given.no_mirroring,
        postprocessing: given.postprocessing.clone(),
        precision: precision.while_doing(|| "--precision".to_owned())?,
        device: args.opening.device.clone(),
        progress: progress(),
        ..NnunetOptions::default()
    })
}

fn open(args: &Args) -> Outcome<NnunetEnsemble> {
    let (given, options) = (&args.nnunet, options(args)?);
    let mut folders = vec![args.run.clone()];
    for folder in &given.with {
        if !is_one(folder) {
            let what = "expected plans.json, dataset.json and fold_0 in it";
            return Err(Failure::new(format!("--with {} is no model of nnU-Net: {what}", folder.display())));
        }
        folders.push(folder.clone());
    }
    Ok(NnunetEnsemble::open(&folders, &options)?)
}

/// Plans the result of each case; fails if a result would replace a file.
fn tasks(args: &Args, opened: &NnunetEnsemble) -> Outcome<Planned> {
    let mut outputs = Outputs::new(COMMAND, args.files.overwrite);
    // A call that was ended while it wrote results left some of them.
    let models = opened.members().iter().map(|member| Ok(member.key()?)).collect::<Outcome<Vec<Value>>>()?;
    let ending = &opened.first().folder.dataset.file_ending;
    let mut tasks = Vec::new();
    for given in &args.images {
        for case in cases(opened, given)? {
            let named = |end: &str| args.out.join(format!("{}{end}", case.name));
            let labels = named(ending);
            let probabilities = args.files.probabilities.then(|| [named(".npz"), named(".pkl")]);
            let previous = args.opening.previous_stage.as_deref();
            // One that is missing is named when its turn comes.
            let previous = previous.map(|folder| opened.first().previous_labels(folder, &case).unwrap_or_default());
            let key = key(&models, &case, previous.as_ref());
            let all = || std::iter::once(&labels).chain(probabilities.iter().flatten());
            let same = all().all(|path| is_whole(path, COMMAND)) && is_made_of(&labels, &key);
            if same && !args.files.overwrite {
                note!("{}: done by an earlier call", case.name);
                if args.files.json && speaks() {
                    skipped(&case.name, as_json(case.files.iter()), &all().collect::<Vec<_>>());
                }
                continue;
            }
            all().try_for_each(|path| outputs.claim_for(path, &key))?;
            tasks.push(Task { case, labels, probabilities, key });
        }
    }
    let about = if args.files.probabilities { about(args, opened, &mut outputs)? } else { Vec::new() };
    std::fs::create_dir_all(&args.out).while_doing(|| format!("cannot make the folder {}", args.out.display()))?;
    Ok(Planned { outputs, tasks, about })
}

/// `plans.json` and `dataset.json`, which nnU-Net's ensembles read beside probabilities: those that are not
/// there yet.
fn about(args: &Args, opened: &NnunetEnsemble, outputs: &mut Outputs) -> Outcome<Vec<(PathBuf, String)>> {
    let folder = &opened.first().folder;
    let mut missing = Vec::new();
    for (name, value) in [("plans.json", &folder.plans.raw), ("dataset.json", &folder.dataset.raw)] {
        let (path, text) = (args.out.join(name), serde_json::to_string_pretty(value)? + "\n");
        if std::fs::read_to_string(&path).is_ok_and(|there| there == text) {
            continue;
        }
        outputs.claim(&path)?;
        missing.push((path, text));
    }
    Ok(missing)
}

/// The cases of a folder; the one that a file is of, with the files of its other channels; a file without
/// the number of a channel, where the model takes one channel.
fn cases(opened: &NnunetEnsemble, given: &Path) -> Outcome<Vec<Case>> {
    let first = opened.first();
    if given.is_dir() {
        return Ok(first.cases(given)?);
    }
    let ending = &first.folder.dataset.file_ending;
    let refused = |what: String| Err(Failure::new(format!("-i {}: {what}", given.display())));
    if !given.is_file() {
        return refused("there is no such file or folder".to_owned());
    }
    let name = given.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some(stem) = name.strip_suffix(ending.as_str()).filter(|stem| !stem.is_empty()) else {
        return refused(format!("the model is for images that end with {ending}; hearth data convert makes them"));
    };
    let channels = first.folder.dataset.channel_names.len();
    let of_channel = stem.rsplit_once('_').filter(|(_, number)| number.len() == 4 && number.parse::<u32>().is_ok());
    match of_channel {
        Some((name, _)) => {
            let folder = given.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let found = first.cases(folder)?;
            Ok(found.into_iter().filter(|case| case.name == name).collect())
        }
        None if channels == 1 => Ok(vec![Case { name: stem.to_owned(), files: vec![given.to_owned()] }]),
        None => {
            let what = format!(
                "the model takes {channels} channels: name their files {stem}_0000{ending}, {stem}_0001{ending}"
            );
            refused(format!("{what}, ..., and give one of them, or the folder"))
        }
    }
}

/// What a result comes from: files by size and time, and the models. Null where a file is missing,
/// which is reported when its turn comes.
fn key(models: &[Value], case: &Case, previous: Option<&PathBuf>) -> Value {
    let mut files = Vec::new();
    for path in case.files.iter().chain(previous) {
        let Ok(facts) = std::fs::metadata(path) else { return Value::Null };
        let at = facts.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        files.push(json!([facts.len(), at.map(|at| at.as_millis() as u64)]));
    }
    json!({"files": files, "models": models})
}

fn predict(
    args: &Args,
    opened: &NnunetEnsemble,
    task: &Task,
    outputs: &Outputs,
    said: &mut Said,
    spent: &mut StageSeconds,
) -> Outcome {
    let Task { case, labels, probabilities, key } = task;
    let start = Instant::now();
    let found = opened.predict(case, args.opening.previous_stage.as_deref(), probabilities.is_some())?;
    spent.predict = start.elapsed().as_secs_f64();
    let sums = case.files.iter().map(|file| sum(file)).collect::<Result<Vec<_>, _>>()?;
    let files: Vec<String> = case.files.iter().map(|file| file.display().to_string()).collect();
    let plans = &opened.first().folder.plans;
    let heads: Vec<&str> = opened.first().folder.dataset.labels.heads.iter().map(|(name, _)| name.as_str()).collect();
    let facts = json!({
        "input": files, "input_blake3": sums, KEY: key, "dataset": plans.dataset_name, "heads": heads,
        "models": opened.members().iter().map(|m| m.folder.path.display().to_string()).collect::<Vec<_>>(),
    });
    let doing = |path: &Path| format!("writing {}", path.display());
    if let Some([path, beside]) = probabilities {
        outputs.make(path, facts.clone(), || found.write_probabilities(path).while_doing(|| doing(path)))?;
        said.file("probabilities", path);
        outputs.make(beside, facts.clone(), || found.write_properties(beside).while_doing(|| doing(beside)))?;
        said.file("properties", beside);
    }
    outputs.make(labels, facts, || found.write(labels).while_doing(|| doing(labels)))?;
    spent.write = start.elapsed().as_secs_f64() - spent.predict;
    said.file("labels", labels);
    Ok(())
}
