//! `hearth predict`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use hearth_data::{NiftiOptions, write_nifti};
use serde_json::json;

use crate::commands::tta::TtaWord;
use crate::error::{Context, Failure, Outcome};
use crate::folders;
use crate::recipe::{Output, Recipe};
use crate::run::inputs::{Input, inputs};
use crate::run::outputs::{Outputs, sum};
use crate::run::{Segmented, Trained};
use crate::terminal::seconds;
use crate::{note, out};

/// Arguments of `hearth predict`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a run
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The images: files that a reader knows, folders of DICOM slices, folders of images, or
    /// anything that --data of `train` takes: data sets, a case's folder of modalities, tables,
    /// lists
    #[arg(short = 'i', long = "image", value_name = "PATH", required = true, num_args = 1..)]
    pub images: Vec<PathBuf>,
    /// The output folder: NAME_seg.nii.gz with labels or a channel for each region,
    /// NAME_pred.nii.gz with an image, scores.csv
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    pub out: PathBuf,
    /// Which checkpoint: best, latest, or the name of a folder in RUN/checkpoints
    #[arg(long, default_value = "best")]
    pub checkpoint: String,
    /// Where to compute: cpu, cuda:0, vulkan, rocm:0, metal, auto
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Test-time augmentation, in place of the recipe's
    #[arg(long, value_name = "HOW")]
    pub tta: Option<TtaWord>,
    /// Also write NAME_std.nii.gz: the standard deviation of the foreground's probability over the
    /// augmented images
    #[arg(long)]
    pub uncertainty: bool,
    /// Replace results of an earlier `hearth predict` that were not changed since
    #[arg(long)]
    pub overwrite: bool,
}

/// An image, and the file of its result.
struct Task {
    input: Input,
    result: PathBuf,
    /// The file of `--uncertainty`.
    deviation: Option<PathBuf>,
}

/// Predicts each image. An error in one does not stop the others.
pub fn run(args: &Args) -> Outcome {
    let folder = folders::open_run(&args.run)?;
    let trained = Trained::open(&folder, &args.checkpoint, &args.device, args.tta.map(TtaWord::tta))?;
    let mut outputs = Outputs::new("predict", args.overwrite);
    let recipe = &trained.plan.recipe;
    let scores = (recipe.output() == Output::Scores).then(|| args.out.join("scores.csv"));
    if let Some(path) = &scores {
        outputs.claim(path)?;
    }
    if args.uncertainty && scores.is_some() {
        return Err(Failure::new("--uncertainty is a map of where predictions differ; this run predicts numbers"));
    }
    let tasks = tasks(args, recipe, &mut outputs)?;
    if args.uncertainty && trained.augmentation.is_none() {
        let advice = "add --tta flips, or [tta] to the recipe";
        return Err(Failure::new(format!("--uncertainty compares predictions of augmented images: {advice}")));
    }
    std::fs::create_dir_all(&args.out).while_doing(|| format!("cannot make the folder {}", args.out.display()))?;
    let (start, count) = (Instant::now(), tasks.len());
    let (mut failed, mut rows) = (Vec::new(), Vec::new());
    for (done, task) in tasks.iter().enumerate() {
        let name = task.input.name();
        if count > 1 {
            let left = match done {
                0 => String::new(),
                _ => {
                    let each = start.elapsed().as_secs_f64() / done as f64;
                    format!("  {} left", seconds(each * (count - done) as f64))
                }
            };
            note!("image {} of {count}: {name}{left}", done + 1);
        }
        match predict(&trained, task, &outputs) {
            Ok(Some(scores)) => rows.push((name, scores)),
            Ok(None) => out!("{}", task.result.display()),
            Err(failure) => {
                note!("{name}: {}", failure.line());
                failed.push(name);
            }
        }
    }
    if let Some(path) = scores.filter(|_| !rows.is_empty()) {
        outputs.write(&path, table(recipe, &rows))?;
        out!("{}", path.display());
    }
    if failed.is_empty() {
        return Ok(());
    }
    let more = failed.len().saturating_sub(8);
    failed.truncate(8);
    let tail = if more > 0 { format!("\nand {more} more") } else { String::new() };
    let bad = failed.len() + more;
    Err(Failure::new(format!("{bad} of {count} images failed:\n{}{tail}", failed.join("\n"))))
}

/// Plans the result of each image; fails if a result would replace a file.
fn tasks(args: &Args, recipe: &Recipe, outputs: &mut Outputs) -> Outcome<Vec<Task>> {
    let mut tasks = Vec::new();
    let (end, output) = match recipe.output() {
        Output::Image => ("_pred", Output::Image),
        other => ("_seg", other),
    };
    for given in &args.images {
        for input in inputs(given, recipe)? {
            let stem = input.stem();
            let result = args.out.join(format!("{stem}{end}.nii.gz"));
            let deviation = args.uncertainty.then(|| args.out.join(format!("{stem}_std.nii.gz")));
            if output != Output::Scores {
                outputs.claim(&result)?;
            }
            if let Some(path) = &deviation {
                outputs.claim(path)?;
            }
            tasks.push(Task { input, result, deviation });
        }
    }
    Ok(tasks)
}

/// Predicts one image and writes the requested files; returns scores.
fn predict(trained: &Trained, task: &Task, outputs: &Outputs) -> Outcome<Option<Vec<f32>>> {
    let Task { input, result, deviation } = task;
    if trained.plan.recipe.output() == Output::Scores {
        return Ok(Some(trained.scores(input.sample())?));
    }
    let found = trained.segment(input.sample(), deviation.is_some())?;
    let Segmented { image: map, output, uncertainty } = &found;
    let doing = |path: &Path| format!("cannot write {}", path.display());
    let options = if output.is_map() { NiftiOptions::label() } else { NiftiOptions::default() };
    write_nifti(result, map, options).while_doing(|| doing(result))?;
    let labels = &trained.plan.recipe.labels;
    let files: Vec<&PathBuf> = input.files().collect();
    let sums = files.iter().map(|file| if file.is_file() { Ok(Some(sum(file)?)) } else { Ok(None) });
    let sums = sums.collect::<Outcome<Vec<Option<String>>>>()?;
    let (named, summed) = match (&files[..], &sums[..]) {
        ([file], [sum]) => (json!(file.display().to_string()), json!(sum)),
        _ => (files.iter().map(|file| file.display().to_string()).collect(), json!(sums)),
    };
    let mut facts = json!({
        "input": named, "input_blake3": summed, "checkpoint": trained.checkpoint,
        "recipe": trained.plan.recipe.title(),
    });
    match output {
        Output::Labels => facts["labels"] = json!(labels),
        Output::Regions => facts["regions"] = json!(labels),
        Output::Scores | Output::Image => {}
    }
    outputs.record(result, facts.clone())?;
    let (Some(path), Some((std, vvc))) = (deviation, uncertainty) else { return Ok(None) };
    write_nifti(path, std, NiftiOptions::default()).while_doing(|| doing(path))?;
    facts["volume_variation_coefficient"] = json!(vvc);
    outputs.record(path, facts)?;
    out!("{}  volume variation coefficient {vvc:.4}", path.display());
    Ok(None)
}

/// The scores of all images: a row for each, a column for each label, and the likeliest class where
/// one wins.
fn table(recipe: &Recipe, rows: &[(String, Vec<f32>)]) -> String {
    let quoted = |text: &str| match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    let wins = recipe.learns().names_a_winner();
    let mut columns = vec!["image".to_owned()];
    columns.extend(wins.then(|| "class".to_owned()));
    columns.extend(recipe.labels.iter().map(|label| quoted(label)));
    let mut text = columns.join(",") + "\n";
    for (image, scores) in rows {
        let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(index, _)| index);
        let class = best.filter(|_| wins).and_then(|index| recipe.labels.get(index));
        let mut values = vec![quoted(image)];
        values.extend(class.map(|class| quoted(class)));
        values.extend(scores.iter().map(f32::to_string));
        text += &(values.join(",") + "\n");
    }
    text
}
