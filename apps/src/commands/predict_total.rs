//! `hearth predict` with a folder of TotalSegmentator's models, or others side by side.

use std::path::{Path, PathBuf};
use std::time::Instant;

use hearth_recipe::nnunet::{NnunetOptions, TotalOptions, TotalSegmentator};
use hearth_registry::counted;
use hearth_train::Ranks;
use serde_json::{Value, json};

use crate::commands::predict::Args;
use crate::commands::predict_lists::{FAILED, Said, list_failed, skipped};
use crate::commands::predict_nnunet::{check, options};
use crate::error::{Context, Failure, Outcome};
use crate::note;
use crate::ranks::is_first;
use crate::run::outputs::{KEY, Outputs, is_made_of, is_record, is_whole, sum, written_by};
use crate::sharing::{Done, own, prepared};
use crate::terminal::{seconds, speaks};

const COMMAND: &str = "predict";

/// Ends of images that are read.
const ENDS: [&str; 2] = [".nii.gz", ".nii"];

/// Whether the argument of `hearth predict` holds several models of nnU-Net.
pub fn is_one(path: &Path) -> bool {
    TotalSegmentator::is_one(path)
}

struct Task {
    image: PathBuf,
    name: String,
    labels: PathBuf,
    statistics: Option<PathBuf>,
    key: Value,
}

/// Predicts every image. An error in one does not stop the others.
pub fn run(args: &Args, ranks: Option<&Ranks>) -> Outcome {
    check(args)?;
    let given = &args.nnunet;
    let refused = [
        ("--probabilities", args.files.probabilities),
        ("--previous-stage", args.opening.previous_stage.is_some()),
        ("--postprocessing", given.postprocessing.is_some()),
        ("--with", !given.with.is_empty()),
    ];
    if let Some((name, _)) = refused.into_iter().find(|(_, given)| *given) {
        return Err(Failure::new(format!("{name} is not for several models side by side: remove it")));
    }
    let start = Instant::now();
    let opened = prepared(ranks, open(args))?;
    if ranks.is_none_or(|ranks| ranks.rank() == 0) {
        let (models, classes) = (opened.models().count(), opened.names().len());
        let (models, classes) = (counted(models, "model"), counted(classes, "label"));
        note!("{models}, {classes}, loaded in {}", seconds(start.elapsed().as_secs_f64()));
    }
    let (outputs, tasks) = prepared(ranks, tasks(args, &opened))?;
    let mut done: Done<()> = Done::default();
    let count = tasks.len();
    for place in own(ranks, count) {
        let task = &tasks[place];
        if count > 1 {
            note!("image {} of {count}: {}", place + 1, task.name);
        }
        let mut said = Said::new(args.files.json);
        let mut spent = Value::Null;
        let predicted = predict(args, &opened, task, &outputs, &mut said, &mut spent);
        said.end_of(&task.name, json!(task.image.display().to_string()), spent, predicted.as_ref().err());
        if let Err(failure) = predicted {
            done.fail(place, task.name.clone(), &failure);
        }
    }
    let done = done.of_all(ranks)?;
    if is_first(ranks) && (count > 1 || args.out.join(FAILED).exists()) {
        list_failed(&args.out, COMMAND, &outputs, &done.failed)?;
    }
    done.check(ranks, count, "images")
}

fn open(args: &Args) -> Outcome<TotalSegmentator> {
    Ok(TotalSegmentator::open(&args.run, &total_options(args, options(args)?))?)
}

/// How several models of a call predict, each of them by `models`.
pub fn total_options(args: &Args, models: NnunetOptions) -> TotalOptions {
    let given = &args.nnunet;
    TotalOptions {
        subset: given.roi_subset.clone(),
        step: given.step_size,
        task: given.task.clone(),
        variant: given.variant.clone(),
        models,
        ..TotalOptions::default()
    }
}

/// The images of the arguments: files, and those of folders.
fn images(given: &[PathBuf]) -> Outcome<Vec<(PathBuf, String)>> {
    let named = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        ENDS.iter().find_map(|end| name.strip_suffix(end)).filter(|stem| !stem.is_empty()).map(str::to_owned)
    };
    let mut found = Vec::new();
    for path in given {
        if !path.is_dir() {
            let Some(name) = named(path) else {
                let what = "expected a NIfTI file (.nii.gz, .nii), or a folder of them";
                return Err(Failure::new(format!("-i {}: {what}", path.display())));
            };
            found.push((path.clone(), name));
            continue;
        }
        let entries = std::fs::read_dir(path).while_doing(|| format!("cannot read the folder {}", path.display()))?;
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| file.is_file() && !is_record(file) && !written_by(file, COMMAND));
        files.sort_unstable();
        let files: Vec<(PathBuf, String)> =
            files.into_iter().filter_map(|file| named(&file).map(|name| (file, name))).collect();
        if files.is_empty() {
            return Err(Failure::new(format!("-i {} holds no NIfTI file (.nii.gz, .nii)", path.display())));
        }
        found.extend(files);
    }
    Ok(found)
}

fn tasks(args: &Args, opened: &TotalSegmentator) -> Outcome<(Outputs, Vec<Task>)> {
    let mut outputs = Outputs::new(COMMAND, args.files.overwrite);
    let models = opened.models().map(|model| Ok(model.key()?)).collect::<Outcome<Vec<Value>>>()?;
    let mut tasks = Vec::new();
    for (image, name) in images(&args.images)? {
        let labels = args.out.join(format!("{name}_seg.nii.gz"));
        let statistics = args.nnunet.statistics.then(|| args.out.join(format!("{name}_statistics.json")));
        let facts = std::fs::metadata(&image).while_doing(|| format!("cannot read {}", image.display()))?;
        let changed = facts.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let key = json!({"file": [facts.len(), changed.map(|at| at.as_millis() as u64)], "models": models,
            "classes": opened.names().values().collect::<Vec<_>>(), "task": opened.card().task,
            "incomplete": args.nnunet.stats_include_incomplete});
        let mut all = [Some(&labels), statistics.as_ref()].into_iter().flatten();
        let same = all.clone().all(|path| is_whole(path, COMMAND)) && is_made_of(&labels, &key);
        if same && !args.files.overwrite {
            note!("{name}: done by an earlier call");
            if args.files.json && speaks() {
                skipped(&name, json!(image.display().to_string()), &all.collect::<Vec<_>>());
            }
            continue;
        }
        all.try_for_each(|path| outputs.claim_for(path, &key))?;
        drop(all);
        tasks.push(Task { image, name, labels, statistics, key });
    }
    std::fs::create_dir_all(&args.out).while_doing(|| format!("cannot make the folder {}", args.out.display()))?;
    Ok((outputs, tasks))
}

fn predict(
    args: &Args,
    opened: &TotalSegmentator,
    task: &Task,
    outputs: &Outputs,
    said: &mut Said,
    spent: &mut Value,
) -> Outcome {
    let Task { image, name, labels, statistics, key } = task;
    let start = Instant::now();
    let found = opened.predict(image)?;
    let predicting = start.elapsed().as_secs_f64();
    let facts = json!({
        "input": image.display().to_string(), "input_blake3": sum(image)?, KEY: key,
        "labels": opened.names().iter().map(|(label, name)| (label.to_string(), name.clone().into()))
            .collect::<serde_json::Map<String, Value>>(),
        "models": opened.models().map(|model| model.folder.path.display().to_string()).collect::<Vec<_>>(),
    });
    let doing = |path: &Path| format!("writing {}", path.display());
    outputs.make(labels, facts.clone(), || found.write(labels).while_doing(|| doing(labels)))?;
    said.file("labels", labels);
    if let Some(path) = statistics {
        let incomplete = args.nnunet.stats_include_incomplete;
        let text = serde_json::to_string_pretty(&found.statistics(incomplete))? + "\n";
        outputs.make(path, facts, || crate::folders::replace(path, text))?;
        said.file("statistics", path);
        let cut = found.incomplete().count();
        if cut > 0 && !incomplete {
            let (found, verb) = (counted(cut, "structure"), if cut == 1 { "is" } else { "are" });
            let what = "near the image's border, and may be cut: 0 in the statistics";
            note!("{name}: {found} {verb} {what} (--stats-include-incomplete measures all)");
        }
    }
    *spent = json!({ "predict": predicting, "write": start.elapsed().as_secs_f64() - predicting });
    note!("{name}: {}", seconds(start.elapsed().as_secs_f64()));
    Ok(())
}
