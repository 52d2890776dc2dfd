//! `hearth predict`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hearth_data::dicom::Authorship;
use hearth_data::writers::coding_of;
use hearth_data::{Image, NiftiOptions, write_nifti};
use hearth_registry::counted;
use hearth_train::{Floats, Ranks};
use serde_json::{Value, json};

use crate::commands::generate::generate;
use crate::commands::opening::OpeningArgs;
use crate::commands::predict_found::{Found, Origin, Predicted};
use crate::commands::predict_lists::{FAILED, Said, list_failed, table};
use crate::commands::predict_model::{self, ModelArgs, stored};
use crate::commands::predict_nnunet::{self, NnunetArgs};
use crate::commands::predict_tasks::{Task, tasks};
use crate::commands::predicted::Pictures;
use crate::commands::region_files::{Codes, RegionArgs, is_fractional};
use crate::commands::{predict_bundle, predict_held_out, predict_slides, predict_total};
use crate::error::{Context, Failure, Outcome};
use crate::folders;
use crate::picture::Canvas;
use crate::ranks::{RanksArgs, is_first, local_rank};
use crate::recipe::Output;
use crate::run::dicom_end;
use crate::run::given::expanded;
use crate::run::outputs::{KEY, Outputs, sum};
use crate::run::package::codes_of;
use crate::run::{NO_REGIONS, Overlap, Ready, Segmented, StageSeconds, Trained, Wanted, overlapped};
use crate::sharing::{Done, own, prepared, shared_cases};
use crate::terminal::{keep_unsaid, seconds, speak_here, speaks_here, unsaid};
use crate::{note, out};

/// Arguments of `hearth predict`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The folder of a run; a package (.hearth); a recipe, with --weights; the folder of a trained model
    /// of nnU-Net v2, or of several of them, as TotalSegmentator's; a MONAI bundle, whose config says what
    /// is written; or the name of a model that `hearth models add` stored
    #[arg(value_name = "RUN|MODEL")]
    pub run: PathBuf,
    /// What else the model is opened with.
    #[command(flatten)]
    pub model: ModelArgs,
    /// The images: files that a reader knows, folders of DICOM slices or trees of them, folders of
    /// images, or what --data of `train` takes: data sets, a case's folder of modalities, tables,
    /// lists; quoted patterns ('scans/*/t1.nii.gz'), and lists of paths (.txt). For a model of nnU-Net
    /// folders of NAME_0000.nii.gz, NAME_0001.nii.gz
    #[arg(short = 'i', long = "image", value_name = "PATH", required_unless_present = "count", num_args = 1..)]
    pub images: Vec<PathBuf>,
    /// Where the results go, in the folders of a tree: NAME_seg.nii.gz with labels, or a channel for
    /// each region without labels, NAME_pred.nii.gz with an image, scores.csv; of a slide the map
    /// NAME.npy, NAME_heat.tif, NAME.geojson and NAME_picture.png; generated_0000.png, or .nii.gz
    /// in 3-D
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    pub out: PathBuf,
    /// Images to make of random numbers alone, by a run whose task is Generation
    #[arg(long, value_name = "N", conflicts_with_all = ["images", "tta", "uncertainty"],
        value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// The seed of those random numbers; the same seed makes the same images [default: 0]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Which network is used, and how.
    #[command(flatten)]
    pub opening: OpeningArgs,
    /// Also write NAME_std.nii.gz: the standard deviation of the foreground's probability over the
    /// augmented images
    #[arg(long)]
    pub uncertainty: bool,
    /// What is written, and in place of what.
    #[command(flatten)]
    pub files: FileArgs,
    /// By how many ranks, each of which takes some of the images.
    #[command(flatten)]
    pub ranks: RanksArgs,
    /// Each labelled case of the data set of -i, by the run that did not train on it: RUN is a folder of
    /// folds, or one of their runs. The second stage of a cascade learns from such labels
    #[arg(long, conflicts_with_all = ["count", "weights"])]
    pub held_out: bool,
    /// Only cases of these names, which the run held out.
    #[arg(skip)]
    pub cases: Option<BTreeSet<String>>,
    /// Options for models of nnU-Net.
    #[command(flatten)]
    pub nnunet: NnunetArgs,
}

/// Options that say which files are written beside each result.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FileArgs {
    /// Also write NAME_prob.nii.gz: the probability of each label or region, a channel for each; of a
    /// model of nnU-Net NAME.npz
    #[arg(long)]
    pub probabilities: bool,
    /// The labels for hospitals and viewers.
    #[command(flatten)]
    pub regions: RegionArgs,
    /// Of several DICOM series of a study, the one of this UID, number or description (*thorax*),
    /// or by a rule: most-slices, thinnest; auto takes the one that suits the network, and says why
    #[arg(long, value_name = "WHICH")]
    pub series: Option<String>,
    /// Draw NAME_picture.png too: outlines, scores or images beside the input; labels with them
    /// where a data set is given that has them
    #[arg(long)]
    pub picture: bool,
    /// Replace results that an earlier call wrote and nobody has changed since
    #[arg(long)]
    pub overwrite: bool,
    /// Print a line of JSON for each image in place of the names of its files: input, outputs, seconds of
    /// each stage, millilitres of each label, scores, or the error
    #[arg(long)]
    pub json: bool,
}

impl Args {
    /// The best checkpoint of a run on these images, as the command line has it without options.
    pub fn new(run: &Path, images: Vec<PathBuf>, out: &Path, device: &str, tune: Option<&str>) -> Self {
        Self {
            run: run.to_owned(),
            model: ModelArgs::default(),
            images,
            out: out.to_owned(),
            count: None,
            seed: None,
            opening: OpeningArgs::new(device, tune),
            uncertainty: false,
            files: FileArgs::default(),
            ranks: RanksArgs::default(),
            held_out: false,
            cases: None,
            nnunet: NnunetArgs::default(),
        }
    }
}

/// The command: predicts each image. An error in one does not stop the others.
pub fn run(args: &Args) -> Outcome {
    shared_cases(args.ranks, |ranks| predict(args, ranks))
}

/// The same, within another command.
pub fn predict(args: &Args, ranks: Option<&Ranks>) -> Outcome {
    let args = &Args { images: expanded(&args.images)?, ..args.clone() };
    match args.held_out {
        true => predict_held_out::run(args, ranks),
        false => of_rank(args, ranks),
    }
}

fn of_rank(args: &Args, ranks: Option<&Ranks>) -> Outcome {
    if let Some(path) = stored(&args.run).filter(|_| args.model.weights.is_none()) {
        return of_rank(&Args { run: path, ..args.clone() }, ranks);
    }
    if let Some(unpacked) = prepared(ranks, predict_model::unpacked(args))? {
        let model = ModelArgs::default();
        return of_rank(&Args { run: unpacked.path().to_owned(), model, ..args.clone() }, ranks);
    }
    if predict_nnunet::is_one(&args.run) {
        return predict_nnunet::run(args, ranks);
    }
    if predict_total::is_one(&args.run) {
        return predict_total::run(args, ranks);
    }
    if predict_bundle::is_one(&args.run) {
        return predict_bundle::run(args, ranks);
    }
    args.nnunet.check_unused()?;
    if args.seed.is_some() && args.count.is_none() {
        return Err(Failure::new("--seed is the seed of generated images: give --count too, or remove --seed"));
    }
    let trained = prepared(ranks, predict_model::open(args, local_rank(ranks)))?;
    let (generates, of_slides) =
        (trained.plan.recipe.learns().generates(), trained.plan.recipe.learns().patches().is_some());
    if args.files.json && (generates || of_slides) {
        let what = "--json tells of volumes and scores; this run makes images of random numbers, or maps of slides";
        return Err(Failure::new(format!("{what}: remove it")));
    }
    match (args.count, generates) {
        (Some(_), true) if ranks.is_some() => {
            return Err(Failure::new("images of random numbers are made by one rank: remove --ranks, or the launcher"));
        }
        (Some(count), true) => return generate(args, &trained, count),
        (Some(_), false) => {
            return Err(Failure::new("--count makes images of random numbers; this run predicts: give images by -i"));
        }
        (None, true) => {
            return Err(Failure::new("this run makes images of random numbers alone: give --count N in place of -i"));
        }
        (None, false) => {}
    }
    if of_slides {
        return predict_slides::run(args, &trained, "predict", ranks);
    }
    predict_all(args, &trained, "predict", ranks)
}

/// What is known before the first image is read.
struct Prepared<'a> {
    outputs: Outputs,
    tasks: Vec<Task>,
    /// The file of a run that predicts numbers.
    scores: Option<PathBuf>,
    pictures: Option<Pictures<'a>>,
    /// What labels are, by name, of `--codes`.
    codes: Codes,
}

fn prepare<'a>(args: &Args, trained: &'a Trained, command: &'static str) -> Outcome<Prepared<'a>> {
    let mut outputs = Outputs::new(command, args.files.overwrite);
    let recipe = &trained.plan.recipe;
    let scores = (recipe.output() == Output::Scores).then(|| args.out.join("scores.csv"));
    if let Some(path) = &scores {
        outputs.claim(path)?;
    }
    if args.uncertainty && scores.is_some() {
        return Err(Failure::new("--uncertainty is a map of where predictions differ; this run predicts numbers"));
    }
    if args.files.probabilities && matches!(recipe.output(), Output::Scores | Output::Image) {
        let what = "--probabilities are those of labels and regions; this run predicts";
        let predicts = if scores.is_some() { "numbers, which scores.csv has" } else { "an image" };
        return Err(Failure::new(format!("{what} {predicts}")));
    }
    if args.files.regions.any() && !recipe.output().is_map() {
        return Err(Failure::new(NO_REGIONS));
    }
    // What a package says of its labels, and the table that was given.
    let given = args.files.regions.check()?;
    let mut codes = codes_of(&trained.labels);
    codes.retain(|name, _| coding_of(&given, name).is_none());
    codes.extend(given);
    let tasks = tasks(args, trained, command, &mut outputs)?;
    if args.uncertainty && trained.augmentation.is_none() {
        let advice = "add --tta flips, or [tta] to the recipe";
        return Err(Failure::new(format!("--uncertainty compares predictions of augmented images: {advice}")));
    }
    let pictures = if args.files.picture { Some(Pictures::new(trained, &args.images)?) } else { None };
    std::fs::create_dir_all(&args.out).while_doing(|| format!("cannot make the folder {}", args.out.display()))?;
    Ok(Prepared { outputs, tasks, scores, pictures, codes })
}

/// Predicts each image with a network, or with an ensemble of them.
pub(super) fn predict_all(args: &Args, trained: &Trained, command: &'static str, ranks: Option<&Ranks>) -> Outcome {
    // No rank writes before all have seen what is there.
    let Prepared { outputs, tasks, scores, pictures, codes } = prepared(ranks, prepare(args, trained, command))?;
    let (start, count) = (Instant::now(), tasks.len());
    let mine: Vec<usize> = own(ranks, count).collect();
    let mut done: Done<(String, Floats)> = Done::default();
    let speaks = speaks_here();
    let begin = || speak_here(speaks);
    let (reading, origin) = (trained.plan.reading(), Origin::of(trained));
    let read = |place: &usize| -> Outcome<Ready> {
        let Task { input, previous, refused, .. } = &tasks[*place];
        match refused {
            Some(failure) => Err(Failure::new(failure.line())),
            None => Ok(reading.ready_from(input.sample(), previous.as_deref())?),
        }
    };
    let predict = |before: usize, ready: Ready| {
        let place = mine[before];
        if count > 1 {
            let left = match before {
                0 => String::new(),
                _ => {
                    let each = start.elapsed().as_secs_f64() / before as f64;
                    format!("  {} left", seconds(each * (mine.len() - before) as f64))
                }
            };
            note!("image {} of {count}: {}{left}", place + 1, tasks[place].input.name());
        }
        compute(trained, &tasks[place], ready, pictures.as_ref())
    };
    let write = |before: usize, found: Outcome<Found>, spent: StageSeconds| {
        let (place, begun) = (mine[before], Instant::now());
        let task = &tasks[place];
        let mut said = Said::new(args.files.json);
        let written = found.and_then(|found| write(&origin, task, found, &outputs, &codes, &mut said));
        let spent = StageSeconds { write: begun.elapsed().as_secs_f64(), ..spent };
        said.end(&task.input, spent, written.as_ref().err());
        let name = task.input.name();
        match written {
            Ok(Some(scores)) => done.rows.push((place, (name, Floats(scores)))),
            Ok(None) => {}
            Err(failure) => done.fail(place, name, &failure),
        }
        unsaid()
    };
    let overlap = Overlap::of_machine().shared_by(ranks.map_or(1, Ranks::world));
    let all = overlapped(&mine, overlap, begin, read, Ready::bytes, predict, write);
    keep_unsaid(all.results.into_iter().flatten().collect());
    if mine.len() > 1 {
        let [read, predict, write] = [all.stages.read, all.stages.predict, all.stages.write].map(seconds);
        let (images, wall) = (counted(mine.len(), "image"), seconds(all.wall));
        note!("{images} in {wall}; of each stage: reading {read}, predicting {predict}, writing {write}");
    }
    let done = done.of_all(ranks)?;
    if let Some(path) = scores.filter(|_| is_first(ranks) && !done.rows.is_empty()) {
        outputs.write(&path, table(&trained.plan.recipe, done.rows.iter().map(|(_, row)| row)))?;
        if !args.files.json {
            out!("{}", path.display());
        }
    }
    // What became of one image is said already, unless an earlier call listed it.
    let of_fold = args.cases.is_some();
    if is_first(ranks) && !of_fold && (count > 1 || args.out.join(FAILED).exists()) {
        list_failed(&args.out, command, &outputs, &done.failed)?;
    }
    done.check(ranks, count, "images")
}

/// What the network says of an image.
fn compute(trained: &Trained, task: &Task, ready: Ready, pictures: Option<&Pictures<'_>>) -> Outcome<Found> {
    let Task { input, picture, .. } = task;
    let draw = |canvas: &dyn Fn(&Pictures<'_>) -> Outcome<Canvas>| {
        let (path, pictures) = picture.as_ref().zip(pictures)?;
        let doing = || format!("cannot draw {}", path.display());
        Some(canvas(pictures).and_then(|canvas| canvas.png().while_doing(doing)))
    };
    if trained.plan.recipe.output() == Output::Scores {
        let scores = trained.scores_of(ready)?;
        let picture = draw(&|pictures| pictures.of_scores(input, &scores));
        return Ok(Found { result: Predicted::Scores(scores), picture });
    }
    let fractional = task.dicom.iter().flat_map(|(_, files)| files).any(|(file, _)| is_fractional(*file));
    let probabilities = task.probabilities.is_some() || fractional;
    let wanted = Wanted { uncertainty: task.deviation.is_some(), probabilities };
    let found = trained.segment_of(ready, wanted)?;
    let picture = draw(&|pictures| pictures.of_map(input, &found));
    let written = found.written(&trained.plan)?;
    Ok(Found { result: Predicted::Map(Box::new(found), Box::new(written)), picture })
}

/// Writes what is asked for of an image; scores are returned.
fn write(
    origin: &Origin,
    task: &Task,
    found: Found,
    outputs: &Outputs,
    codes: &Codes,
    said: &mut Said,
) -> Outcome<Option<Vec<f32>>> {
    let Task { input, result, deviation, probabilities, maps, picture, dicom, previous, surfaces, key, .. } = task;
    let Origin { title, checkpoint, weights, made_by, labels, region_labels, members } = origin;
    if let Some(folder) = result.parent() {
        std::fs::create_dir_all(folder).while_doing(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let drawn = |said: &mut Said, drawn: Option<Outcome<Vec<u8>>>| -> Outcome {
        let (Some(path), Some(file)) = (picture, drawn) else { return Ok(()) };
        let file = file?;
        outputs.make(path, json!({ KEY: key }), || folders::replace(path, file))?;
        said.file("picture", path);
        Ok(())
    };
    let picture_made = found.picture;
    let (found, map) = match found.result {
        Predicted::Scores(scores) => {
            drawn(said, picture_made)?;
            said.scores(labels, &scores);
            return Ok(Some(scores));
        }
        Predicted::Map(map, written) => (map, written),
    };
    let map = &map;
    let Segmented { output, uncertainty, disagreement, .. } = &*found;
    let doing = |path: &Path| format!("cannot write {}", path.display());
    let volume = || NiftiOptions::default().description(made_by);
    let options = if output.is_map() { NiftiOptions::label().description(made_by) } else { volume() };
    let files: Vec<&PathBuf> = input.files().collect();
    let sums = files.iter().map(|file| if file.is_file() { Ok(Some(sum(file)?)) } else { Ok(None) });
    let sums = sums.collect::<Outcome<Vec<Option<String>>>>()?;
    let (named, summed) = match (&files[..], &sums[..]) {
        ([file], [sum]) => (json!(file.display().to_string()), json!(sum)),
        _ => (files.iter().map(|file| file.display().to_string()).collect(), json!(sums)),
    };
    let mut facts = json!({
        "input": named, "input_blake3": summed, "checkpoint": checkpoint,
        "recipe": title, "weights_blake3": weights, KEY: key,
    });
    if let Some(members) = members {
        facts["ensemble"] = json!(members);
    }
    if let Some(path) = previous {
        facts["previous_stage"] = json!({ "labels": path.display().to_string(), "blake3": sum(path)? });
    }
    if task.held_out {
        facts["held_out"] = json!(true);
    }
    match output {
        Output::Labels => facts["labels"] = json!(labels),
        Output::Regions => facts["regions"] = json!(labels),
        Output::Scores | Output::Image => {}
    }
    if let Some(classes) = region_labels {
        facts["region_labels"] = classes.clone();
    }
    let made = |path: &Path, facts: &Value, map: &Image, options: NiftiOptions| {
        outputs.make(path, facts.clone(), || write_nifti(path, map, options).while_doing(|| doing(path)))
    };
    made(result, &facts, map, options)?;
    if let (Some(path), Some(maps)) = (probabilities, &found.probabilities) {
        made(path, &facts, maps, volume())?;
        said.file("probabilities", path);
    }
    if let Some((series, files)) = dicom {
        facts["series"] = json!(series.uid());
        // One for all: the report refers to the segmentation that was made at the same time.
        let by = Authorship::new(format!("{title}, {checkpoint}")).description(title);
        let by = by.contribution(format!("{made_by}; series {}", series.uid()));
        for (file, path) in files {
            let bytes = found.to_dicom(*file, series, labels, codes, &by).while_doing(|| doing(path))?;
            outputs.make(path, facts.clone(), || folders::replace(path, bytes))?;
            let kind = dicom_end(*file).trim_start_matches('_').trim_end_matches(".dcm");
            said.file(&format!("dicom_{kind}"), path);
        }
        for region in found.missing(labels)? {
            note!("{}: no voxel of {region:?} was found; the DICOM files say so", input.name());
        }
    }
    if let Some(surfaces) = surfaces {
        for (place, bytes) in found.surfaces(labels, surfaces.end, &surfaces.options)? {
            let Some(path) = surfaces.paths.get(place) else { continue };
            outputs.make(path, facts.clone(), || folders::replace(path, bytes))?;
            said.file("surface", path);
        }
    }
    for (path, (name, map)) in maps.iter().zip(disagreement) {
        made(path, &facts, map, volume())?;
        said.file(name, path);
    }
    drawn(said, picture_made)?;
    said.volumes(|| found.volumes(labels));
    if let (Some(path), Some((std, vvc))) = (deviation, uncertainty) {
        facts["volume_variation_coefficient"] = json!(vvc);
        made(path, &facts, std, volume())?;
        said.deviation(path, *vvc);
    }
    said.file(if output.is_map() { "labels" } else { "image" }, result);
    Ok(None)
}
