//! Models that are opened once and asked again and again: runs, and what `hearth predict` takes
//! beside them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use hearth_data::dicom::Authorship;
use hearth_data::dicom::write::SegmentationType;
use hearth_data::writers::RegionFile;
use hearth_data::{Item, Parts, Progress};
use hearth_serve::{Answer, Card, Format, Kind, Model, Refusal, Request};
use serde_json::{Map, Value, json};

use super::nnunet::{ServedNnunet, ServedTotal};
use super::results::{no_series, of_image, refused, segmentation};
use crate::commands::predict::Args as PredictArgs;
use crate::commands::{predict_model, predict_nnunet, predict_total};
use crate::error::{Context, Failure, Outcome};
use crate::recipe::{Output, Recipe};
use crate::run::inputs::{Input, inputs};
use crate::run::package::codes_of;
use crate::run::{Trained, Wanted};

/// Opens what `hearth predict` takes. The name is the argument's, or that of the folder.
pub fn open(given: &str, args: &PredictArgs) -> Outcome<Arc<dyn Model>> {
    let (name, path) = match given.split_once('=').filter(|_| !Path::new(given).exists()) {
        Some((name, path)) => (Some(name), path),
        None => (None, given),
    };
    let path = predict_model::stored(Path::new(path)).unwrap_or_else(|| path.into());
    let args = PredictArgs { run: path, ..args.clone() };
    let name = name.map_or_else(|| name_of(Path::new(given)), str::to_owned);
    check_name(&name)?;
    // A package of a model folder; its networks are in memory once it is open.
    let unpacked = predict_model::unpacked(&args)?;
    let args = match &unpacked {
        Some(unpacked) => PredictArgs { run: unpacked.path().to_owned(), ..args },
        None => args,
    };
    if predict_nnunet::is_one(&args.run) {
        return Ok(Arc::new(ServedNnunet::open(name, &args)?));
    }
    if predict_total::is_one(&args.run) {
        return Ok(Arc::new(ServedTotal::open(name, &args)?));
    }
    args.nnunet.check_unused()?;
    Ok(Arc::new(ServedRun::open(name, &args)?))
}

/// The name of a model in addresses, made of that of its folder.
fn name_of(path: &Path) -> String {
    let real = path.canonicalize().ok();
    let name = real.as_deref().unwrap_or(path).file_stem().unwrap_or_default().to_string_lossy();
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect()
}

fn check_name(name: &str) -> Outcome {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !name.is_empty() && name.chars().all(good) && !name.starts_with('.') {
        return Ok(());
    }
    let what = "is no name of a model in addresses, expected letters, digits, - and _";
    Err(Failure::new(format!("{name:?} {what}: give NAME=MODEL")))
}

/// A run's network, and the thread that it lives in: a recipe's metrics are not made for several
/// threads. One prediction of a run is computed at a time, however many jobs there are.
struct ServedRun {
    card: Card,
    ask: Mutex<Sender<Question>>,
}

/// A request for the thread of a run.
struct Question {
    input: PathBuf,
    series: Option<String>,
    format: Format,
    out: PathBuf,
    /// The answer, or the panic that ended the prediction.
    reply: Sender<std::thread::Result<Result<Answer, Refusal>>>,
}

impl ServedRun {
    fn open(name: String, args: &PredictArgs) -> Outcome<Self> {
        let (ask, questions) = channel::<Question>();
        let (opened, answer) = channel();
        let args = args.clone();
        let work = move || match open_run(name, &args) {
            Err(failure) => drop(opened.send(Err(failure))),
            Ok((trained, card)) => {
                let labels = card.labels.clone();
                // Who asked may have left.
                let _ = opened.send(Ok(card));
                for question in questions {
                    let found = catch_unwind(AssertUnwindSafe(|| answer_of(&trained, &labels, &question)));
                    let _ = question.reply.send(found);
                }
            }
        };
        let thread = std::thread::Builder::new().name("run".to_owned());
        thread.spawn(work).while_doing(|| "cannot start a thread for the model".to_owned())?;
        let card = answer.recv().while_doing(|| "the thread of the model ended".to_owned())??;
        Ok(Self { card, ask: Mutex::new(ask) })
    }
}

impl Model for ServedRun {
    fn card(&self) -> &Card {
        &self.card
    }

    fn infer(&self, request: &Request<'_>) -> Result<Answer, Refusal> {
        let ended = || Refusal::Failed("the thread of the model ended".to_owned());
        let (reply, answer) = channel();
        let question = Question {
            input: request.input.to_owned(),
            series: request.series.map(str::to_owned),
            format: request.format,
            out: request.out.to_owned(),
            reply,
        };
        self.ask.lock().unwrap_or_else(|held| held.into_inner()).send(question).map_err(|_| ended())?;
        match answer.recv().map_err(|_| ended())? {
            Ok(found) => found,
            // The server reports it as this request's fault.
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// Opens a run, and says what it is.
fn open_run(name: String, args: &PredictArgs) -> Outcome<(Trained, Card)> {
    let mut trained = predict_model::open(args, 0)?;
    // Windows of requests are not shown.
    trained.plan.progress = Progress::None;
    let recipe = &trained.plan.recipe;
    let learns = recipe.learns();
    if learns.generates() || learns.patches().is_some() {
        let what = "makes images of random numbers, or maps of slides: `hearth predict` does that";
        return Err(Failure::new(format!("{} {what}; volumes are served", args.run.display())));
    }
    if recipe.previous_stage().is_some() {
        let what = "is the second stage of a cascade, which needs the labels of the first: it is not served";
        return Err(Failure::new(format!("{} {what}", args.run.display())));
    }
    let kind = match recipe.output() {
        Output::Labels | Output::Regions => Kind::Segmentation,
        Output::Scores => Kind::Classification,
        Output::Image => Kind::Image,
    };
    let card = Card {
        name,
        description: format!("{}, checkpoint {}", recipe.title(), trained.checkpoint),
        kind,
        dimension: 3,
        labels: labels(recipe),
        channels: recipe.data.images.clone(),
        checksum: Some(format!("BLAKE3:{}", trained.weights)),
    };
    Ok((trained, card))
}

fn answer_of(trained: &Trained, labels: &[(String, u32)], question: &Question) -> Result<Answer, Refusal> {
    let Question { input, series, format, out, .. } = question;
    let recipe = &trained.plan.recipe;
    let input = input_of(recipe, input, series.as_deref())?;
    if recipe.output() == Output::Scores {
        let scores = trained.scores(input.sample()).map_err(refused)?;
        return Ok(Answer { file: None, facts: of_scores(recipe, &scores) });
    }
    // Before the computation.
    let series = match format {
        Format::DicomSeg if !recipe.output().is_map() => {
            return Err(Refusal::Input("this model predicts an image, and a DICOM segmentation has labels".into()));
        }
        Format::DicomSeg => Some(input.dicom().map_err(|_| no_series())?),
        _ => None,
    };
    let found = trained.segment(input.sample(), Wanted::default()).map_err(refused)?;
    if let Some(series) = series {
        let (title, made_by) = (recipe.title(), trained.made_by());
        let by = Authorship::new(format!("{title}, {}", trained.checkpoint)).description(title);
        let by = by.contribution(format!("{made_by}; series {}", series.uid()));
        let file = RegionFile::Segmentation(SegmentationType::Binary);
        let codes = codes_of(&trained.labels);
        let bytes = found.to_dicom(file, &series, &recipe.labels, &codes, &by).map_err(refused)?;
        return segmentation(&bytes, out);
    }
    let map = found.written(&trained.plan).map_err(refused)?;
    of_image(&map, *format, labels, recipe.output().is_map(), out)
}

/// The one image of a request.
fn input_of(recipe: &Recipe, given: &Path, series: Option<&str>) -> Result<Input, Refusal> {
    let mut found = inputs(given, recipe, series).map_err(refused)?;
    if found.len() == 1 {
        return Ok(found.remove(0));
    }
    let wanted = recipe.data.images.len();
    let files: Vec<_> = found.iter().flat_map(|input| input.files().cloned().collect::<Vec<_>>()).collect();
    if wanted > 1 && found.len() == wanted && found.iter().all(|input| matches!(input, Input::File(_))) {
        let item = Item::new("image").with_parts("image", Parts::new(files));
        return Ok(Input::Case(Box::new(item)));
    }
    let names: Vec<String> =
        files.iter().map(|file| file.file_name().unwrap_or_default().to_string_lossy().into_owned()).collect();
    let what = format!("the request has {} images ({})", found.len(), names.join(", "));
    Err(Refusal::Input(match wanted {
        0 | 1 => format!("{what}, expected one"),
        _ => format!("{what}, expected {wanted} in the order of their names: {}", recipe.data.images.join(", ")),
    }))
}

/// Names of labels with their values in the label map that is written; of regions without labels,
/// the numbers of their channels.
fn labels(recipe: &Recipe) -> Vec<(String, u32)> {
    let numbered = |first: usize| {
        recipe.labels.iter().enumerate().skip(first).map(|(place, name)| (name.clone(), place as u32)).collect()
    };
    match (recipe.output(), recipe.learns().region_labels()) {
        (Output::Labels, _) => numbered(1),
        (Output::Regions, Some(regions)) => of_regions(&recipe.labels, &regions),
        (Output::Regions, None) => {
            recipe.labels.iter().enumerate().map(|(place, name)| (name.clone(), place as u32 + 1)).collect()
        }
        (Output::Scores, _) => numbered(0),
        (Output::Image, _) => Vec::new(),
    }
}

/// A label belongs to several regions that contain each other; its name is that of the smallest.
fn of_regions(names: &[String], regions: &[Vec<i64>]) -> Vec<(String, u32)> {
    let mut values: Vec<i64> = regions.iter().flatten().copied().filter(|value| *value > 0).collect();
    values.sort_unstable();
    values.dedup();
    let mut found: Vec<(String, u32)> = Vec::new();
    for value in values {
        let own = names.iter().zip(regions).filter(|(_, labels)| labels.contains(&value));
        let Some((name, _)) = own.min_by_key(|(_, labels)| labels.len()) else { continue };
        let taken = found.iter().any(|(known, _)| known == name);
        found.push((if taken { format!("{name}_{value}") } else { name.clone() }, value as u32));
    }
    found
}

/// Scores by label, and the likeliest class where one wins.
fn of_scores(recipe: &Recipe, scores: &[f32]) -> Map<String, Value> {
    let each: Map<String, Value> =
        recipe.labels.iter().zip(scores).map(|(name, score)| (name.clone(), json!(score))).collect();
    let mut facts = Map::from_iter([("scores".to_owned(), Value::Object(each))]);
    let best = recipe.labels.iter().zip(scores).max_by(|a, b| a.1.total_cmp(b.1));
    if let Some((name, _)) = best.filter(|_| recipe.learns().names_a_winner()) {
        facts.insert("class".to_owned(), json!(name));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_folders() {
        assert_eq!(name_of(Path::new("runs/first one")), "first_one");
        assert_eq!(name_of(Path::new("spleen.hearth")), "spleen");
        assert!(check_name("spleen-2.1").is_ok());
        for bad in ["", "a b", "../x", ".hidden", "a/b"] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_label_has_the_name_of_its_smallest_region() {
        let names: Vec<String> = ["TC", "WT", "ET"].map(str::to_owned).into();
        let found = of_regions(&names, &[vec![1, 3], vec![1, 2, 3], vec![3]]);
        assert_eq!(found, [("TC".to_owned(), 1), ("WT".to_owned(), 2), ("ET".to_owned(), 3)]);
        let found = of_regions(&names[..1], &[vec![1, 2]]);
        assert_eq!(found, [("TC".to_owned(), 1), ("TC_2".to_owned(), 2)]);
    }
}
