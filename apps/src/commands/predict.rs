//! `hearth predict`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use hearth_data::{NiftiOptions, write_nifti};
use serde_json::json;

use crate::commands::generate::generate;
use crate::commands::predict_slides;
use crate::commands::predicted::Pictures;
use crate::commands::tta::TtaWord;
use crate::error::{Context, Failure, Outcome};
use crate::folders;
use crate::picture::Canvas;
use crate::recipe::{Output, Recipe};
use crate::run::inputs::{Input, inputs};
use crate::run::outputs::{Outputs, sum};
use crate::run::{Opening, Segmented, Trained};
use crate::terminal::{progress, seconds};
use crate::{note, out};

/// Arguments of `hearth predict`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a run
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The images: files that a reader knows, folders of DICOM slices, folders of images, or what
    /// --data of `train` takes: data sets, a case's folder of modalities, tables, lists
    #[arg(short = 'i', long = "image", value_name = "PATH", required_unless_present = "count", num_args = 1..)]
    pub images: Vec<PathBuf>,
    /// Where the results go: NAME_seg.nii.gz with labels or a channel for each region,
    /// NAME_pred.nii.gz with an image, scores.csv; of a slide the map NAME.npy, NAME_heat.tif,
    /// NAME.geojson and NAME_picture.png; generated_0000.png, or .nii.gz in 3-D
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    pub out: PathBuf,
    /// Images to make of random numbers alone, by a run whose task is Generation
    #[arg(long, value_name = "N", conflicts_with_all = ["images", "tta", "uncertainty"],
        value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// The seed of those random numbers; the same seed makes the same images [default: 0]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Which checkpoint: best, latest, or the name of a folder in RUN/checkpoints
    #[arg(long, default_value = "best")]
    pub checkpoint: String,
    /// Where to compute: cpu, cuda:0, vulkan, rocm:0, metal, auto
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Time for choosing kernels on a card, in place of the recipe's: off, quick, full or auto
    #[arg(long, value_name = "HOW")]
    pub tune: Option<String>,
    /// Test-time augmentation, in place of the recipe's
    #[arg(long, value_name = "HOW")]
    pub tta: Option<TtaWord>,
    /// Also write NAME_std.nii.gz: the standard deviation of the foreground's probability over the
    /// augmented images
    #[arg(long)]
    pub uncertainty: bool,
    /// Faults of DICOM series that are accepted, as in MissingSlices; may be given several times
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    pub accept: Vec<String>,
    /// Draw NAME_picture.png too: outlines, scores or images beside the input; labels with them
    /// where a data set is given that has them
    #[arg(long)]
    pub picture: bool,
    /// Replace results that an earlier `hearth predict` wrote and nobody has changed since
    #[arg(long)]
    pub overwrite: bool,
}

/// An image, and the file of its result.
struct Task {
    input: Input,
    result: PathBuf,
    /// The file of `--uncertainty`.
    deviation: Option<PathBuf>,
    /// Of `--picture`.
    picture: Option<PathBuf>,
}

/// Predicts each image. An error in one does not stop the others.
pub fn run(args: &Args) -> Outcome {
    if args.seed.is_some() && args.count.is_none() {
        return Err(Failure::new("--seed is the seed of generated images: give --count too, or remove --seed"));
    }
    let folder = folders::open_run(&args.run)?;
    let (tta, accept) = (args.tta.map(TtaWord::tta), args.accept.clone());
    let opening = Opening {
        checkpoint: &args.checkpoint,
        device: &args.device,
        tune: args.tune.as_deref(),
        tta,
        accept,
        progress: progress(),
    };
    let trained = Trained::open_with(&folder, opening)?;
    match (args.count, trained.plan.recipe.learns().generates()) {
        (Some(count), true) => return generate(args, &trained, count),
        (Some(_), false) => {
            return Err(Failure::new("--count makes images of random numbers; this run predicts: give images by -i"));
        }
        (None, true) => {
            return Err(Failure::new("this run makes images of random numbers alone: give --count N in place of -i"));
        }
        (None, false) => {}
    }
    if trained.plan.recipe.learns().patches().is_some() {
        return predict_slides::run(args, &trained);
    }
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
    let pictures = if args.picture { Some(Pictures::new(&trained, &args.images)?) } else { None };
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
        match predict(&trained, task, &outputs, pictures.as_ref()) {
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
            let named = |end: &str| {
                let mut name = input.stem();
                name.push(end);
                args.out.join(name)
            };
            let result = named(&format!("{end}.nii.gz"));
            let deviation = args.uncertainty.then(|| named("_std.nii.gz"));
            if output != Output::Scores {
                outputs.claim(&result)?;
            }
            if let Some(path) = &deviation {
                outputs.claim(path)?;
            }
            let picture = args.picture.then(|| named("_picture.png"));
            if let Some(path) = &picture {
                outputs.claim(path)?;
            }
            tasks.push(Task { input, result, deviation, picture });
        }
    }
    Ok(tasks)
}

/// Predicts one image and writes what is asked for; scores are returned.
fn predict(
    trained: &Trained,
    task: &Task,
    outputs: &Outputs,
    pictures: Option<&Pictures<'_>>,
) -> Outcome<Option<Vec<f32>>> {
    let Task { input, result, deviation, picture } = task;
    let draw = |canvas: &dyn Fn(&Pictures<'_>) -> Outcome<Canvas>| -> Outcome {
        let (Some(path), Some(pictures)) = (picture, pictures) else { return Ok(()) };
        let file = canvas(pictures)?.png().while_doing(|| format!("cannot draw {}", path.display()))?;
        outputs.write(path, file)?;
        out!("{}", path.display());
        Ok(())
    };
    if trained.plan.recipe.output() == Output::Scores {
        let scores = trained.scores(input.sample())?;
        draw(&|pictures| pictures.of_scores(input, &scores))?;
        return Ok(Some(scores));
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
    draw(&|pictures| pictures.of_map(input, &found))?;
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
