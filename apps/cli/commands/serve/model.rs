//! Models that are opened once and used for many requests: everything that `hearth predict` supports.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use hearth_data::dicom::write::SegmentationType;
use hearth_data::dicom::{Authorship, Series};
use hearth_data::writers::RegionFile;
use hearth_data::{Item, Parts, Progress};
use hearth_models::cases::{Case, Sought, check_upload, images_of};
use hearth_models::model::{
    Asked, Card as ModelCard, Kind as ModelKind, Model as Trained, PredictedMap, Prediction, unlike,
};
use hearth_models::open::{OpenOptions, open as open_model};
use hearth_models::writers::Codes;
use hearth_models::writers::regions::Regions;
use hearth_nn::inferers::stoppable;
use hearth_recipe::warning;
use hearth_serve::{Answer, Card, Format, Kind, Model, Refusal, Request};
use serde_json::{Map, Value, json};

use super::results::{no_series, of_image, refused, segmentation};
use crate::error::{Context, Failure, Outcome};

/// Opens a model that `hearth predict` supports. Its name is that of the argument, or of the folder.
/// `any_modality`: also series of a modality that it is not for are predicted.
pub fn open(given: &str, options: &OpenOptions, any_modality: bool) -> Outcome<Arc<dyn Model>> {
    let (name, path) = match given.split_once('=').filter(|_| !Path::new(given).exists()) {
        Some((name, path)) => (Some(name), path),
        None => (None, given),
    };
    let name = name.map_or_else(|| name_of(Path::new(given)), str::to_owned);
    check_name(&name)?;
    // The progress of requests is not shown.
    let options = OpenOptions { progress: Progress::None, ..options.clone() };
    Ok(Arc::new(Served::open(name, PathBuf::from(path), options, any_modality)?))
}

/// The name of a model in URLs, derived from its folder's name.
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

/// A model, and the thread that it runs on: a recipe's metrics do not support several threads. A model
/// computes one prediction at a time, regardless of the number of jobs.
struct Served {
    card: Card,
    ask: Mutex<Sender<Question>>,
}

/// A request for the thread of a model.
struct Question {
    input: PathBuf,
    series: Option<String>,
    format: Format,
    out: PathBuf,
    stop: Arc<AtomicBool>,
    /// The channel for the answer, or for the panic that ended the prediction.
    reply: Sender<std::thread::Result<Result<Answer, Refusal>>>,
}

impl Served {
    fn open(name: String, path: PathBuf, options: OpenOptions, any_modality: bool) -> Outcome<Self> {
        let (ask, questions) = channel::<Question>();
        let (opened, answer) = channel();
        let work = move || match opened_model(name, &path, &options) {
            Err(failure) => drop(opened.send(Err(failure))),
            Ok((model, card)) => {
                // The caller may no longer wait.
                let _ = opened.send(Ok(card));
                for question in questions {
                    let work = || stoppable(&question.stop, || answer_of(&*model, &question, any_modality));
                    let found = catch_unwind(AssertUnwindSafe(work));
                    let _ = question.reply.send(found);
                }
            }
        };
        let thread = std::thread::Builder::new().name("model".to_owned());
        thread.spawn(work).while_doing(|| "cannot start a thread for the model".to_owned())?;
        let card = answer.recv().while_doing(|| "the thread of the model ended".to_owned())??;
        Ok(Self { card, ask: Mutex::new(ask) })
    }
}

impl Model for Served {
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
            stop: request.stop.clone(),
            reply,
        };
        self.ask.lock().unwrap_or_else(|held| held.into_inner()).send(question).map_err(|_| ended())?;
        match answer.recv().map_err(|_| ended())? {
            Ok(found) => found,
            // The server reports the panic as an error of this request.
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// Opens a model, and returns its description.
fn opened_model(name: String, path: &Path, options: &OpenOptions) -> Outcome<(Box<dyn Trained>, Card)> {
    let model = open_model(path, options)?;
    let card = model.card();
    let kind = match card.kind {
        ModelKind::Labels | ModelKind::Regions => Kind::Segmentation,
        ModelKind::Scores => Kind::Classification,
        ModelKind::Image => Kind::Image,
        ModelKind::SlideMap | ModelKind::Generated | ModelKind::Config => {
            let words = card.kind.words();
            let what = format!("predicts {words}: `hearth predict` does that; models of volumes are served");
            return Err(Failure::new(format!("{} {what}", path.display())));
        }
    };
    let case = Case::File(PathBuf::from("image"));
    if model.previous_stage(&case).is_err() {
        let what = "is the second stage of a cascade, which needs the labels of the first: it is not served";
        return Err(Failure::new(format!("{} {what}", path.display())));
    }
    let card = Card {
        name,
        description: card.description.clone(),
        kind,
        dimension: 3,
        labels: card.file_labels.clone(),
        channels: card.channels.clone(),
        checksum: card.checksum.clone(),
    };
    Ok((model, card))
}

fn answer_of(model: &dyn Trained, question: &Question, any_modality: bool) -> Result<Answer, Refusal> {
    let Question { input, series, format, out, .. } = question;
    let card = model.card();
    let sought = Sought::of_upload(series.as_deref()).of_any_modality(any_modality);
    let case = case_of(model, input, sought)?;
    // Checked before the computation.
    let series = match format {
        Format::DicomSeg if !card.kind.is_map() => {
            let words = card.kind.words();
            return Err(Refusal::Input(format!("this model predicts {words}, and a DICOM segmentation has labels")));
        }
        Format::DicomSeg => Some(case.dicom().map_err(|_| no_series())?),
        _ => None,
    };
    let prepared = model.preparer().prepare(&case, None).map_err(refused)?;
    let mut remarks = prepared.facts.as_ref().map(|facts| unlike(model, facts)).unwrap_or_default();
    let prediction = model.predict(prepared, Asked::default()).map_err(refused)?;
    remarks.extend_from_slice(prediction.remarks());
    let mut answer = match prediction {
        Prediction::Scores(scores) => Answer { file: None, facts: of_scores(card, &scores.values) },
        Prediction::Map(map) => of_map(card, &*map, series.as_ref(), *format, out)?,
        Prediction::SlideMap(_) => return Err(Refusal::Input("maps of slides are not served".to_owned())),
    };
    if !remarks.is_empty() {
        for remark in &remarks {
            // Without the name of its file, which may be that of a patient.
            warning!("{}: an image unlike the training data: {remark}", card.title);
        }
        answer.facts.insert("unlike_training".to_owned(), json!(remarks));
    }
    Ok(answer)
}

fn of_map(
    card: &ModelCard,
    map: &dyn PredictedMap,
    series: Option<&Series>,
    format: Format,
    out: &Path,
) -> Result<Answer, Refusal> {
    if let Some(series) = series {
        let by = Authorship::new(&card.description).description(&card.title);
        let by = by.contribution(format!("{}; series {}", card.made_by, series.name()));
        let codes = Codes::new();
        let regions = Regions::new(map, card, &codes).map_err(refused)?;
        let file = RegionFile::Segmentation(SegmentationType::Binary);
        return segmentation(&regions.to_dicom(file, series, &by).map_err(refused)?, out);
    }
    let image = map.file_image().map_err(refused)?;
    let mut answer = of_image(&image, format, &card.file_labels, card.kind.is_map(), out)?;
    if format == Format::Json
        && let Some(statistics) = map.statistics(false)
    {
        answer.facts.insert("statistics".to_owned(), statistics);
        answer.facts.insert("incomplete".to_owned(), json!(map.incomplete()));
    }
    Ok(answer)
}

/// The only case of a request. This is the one place where files of a client become cases: whatever they
/// say, they name no other files of this machine.
fn case_of(model: &dyn Trained, given: &Path, sought: Sought<'_>) -> Result<Case, Refusal> {
    check_upload(given).map_err(refused)?;
    let wanted = model.card().channels.len();
    let several = given.is_dir().then(|| images_of(given)).transpose().map_err(refused)?;
    let several =
        several.filter(|files| wanted > 1 && files.len() == wanted && files.iter().all(|file| file.is_file()));
    if let Some(files) = several {
        let item = Item::new("image").with_parts("image", Parts::new(files));
        return Ok(Case::Item(Box::new(item)));
    }
    let mut found = model.cases(given, sought).map_err(refused)?;
    if let [case] = &found[..] {
        return match case.refused() {
            Some(why) => Err(Refusal::Input(format!("{}: {why}", case.stem().to_string_lossy()))),
            None => Ok(found.remove(0)),
        };
    }
    let files: Vec<_> = found.iter().flat_map(|case| case.files().cloned().collect::<Vec<_>>()).collect();
    let names: Vec<String> =
        files.iter().map(|file| file.file_name().unwrap_or_default().to_string_lossy().into_owned()).collect();
    let what = format!("the request has {} images ({})", found.len(), names.join(", "));
    Err(Refusal::Input(match wanted {
        0 | 1 => format!("{what}, expected one"),
        _ => format!("{what}, expected {wanted} in the order of their names: {}", model.card().channels.join(", ")),
    }))
}

/// The scores by label, and the most likely class for exclusive classes.
fn of_scores(card: &ModelCard, scores: &[f32]) -> Map<String, Value> {
    let each: Map<String, Value> =
        card.labels.iter().zip(scores).map(|(label, score)| (label.name.clone(), json!(score))).collect();
    let mut facts = Map::from_iter([("scores".to_owned(), Value::Object(each))]);
    let best = card.labels.iter().zip(scores).max_by(|a, b| a.1.total_cmp(b.1));
    if let Some((label, _)) = best.filter(|_| card.names_a_winner) {
        facts.insert("class".to_owned(), json!(label.name));
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
}
