//! A MONAI bundle as a [`Model`].

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hearth_bundle::{Effect, Metadata, Resolver};
use hearth_data::{Image, NiftiOptions};
use hearth_onnx::About;
use hearth_recipe::{Context as _, Outcome, RecipeError};
use hearth_run::Fingerprint;
use hearth_run::outputs::sum;
use serde_json::{Map, Value, json};

use super::evaluator::Evaluator;
use super::facts::modality as modality_of_metadata;
use super::networks::{Loads, Networks};
use super::one_by_one::{Files, OneByOne, PredictedCase};
use super::open::{OpenedBundle, open};
use super::run::{RunOptions, all, config, leave_out_lists};
use super::{Context, checks};
use crate::cases::{Case, CaseFinder, Sought};
use crate::export::Exported;
use crate::model::{
    Abilities, Asked, Card, ClassLabel, Kind, Model, PredictedMap, Prediction, Prepare, Prepared, unlike,
};
use crate::open::OpenOptions;
use crate::package::Unpacked;
use crate::writers::write_volume;

/// A bundle whose inference config predicts images one by one; any other bundle runs as its config
/// defines.
pub struct BundleModel {
    opened: OpenedBundle,
    card: Card,
    /// `None` if the config runs as it is.
    evaluator: Option<Mutex<OneByOne>>,
    /// The properties of the training images, as the bundle states them.
    fingerprint: Option<Fingerprint>,
    files: Vec<PathBuf>,
    /// The faults of DICOM series that are accepted.
    accept: Vec<String>,
    /// Removes the unpacked folder of a package on drop.
    _unpacked: Option<Unpacked>,
}

impl BundleModel {
    /// Opens the folder of a bundle, or its zip; the folder of a package is removed with the model.
    ///
    /// # Errors
    /// A path that is not a bundle, a config with unsupported parts, or missing weights.
    pub fn open(path: &Path, options: &OpenOptions, unpacked: Option<Unpacked>) -> Outcome<Self> {
        let opened = open(path)?;
        let overrides = match options.device.as_str() {
            "auto" => Vec::new(),
            device => vec![("device".to_owned(), device.to_owned())],
        };
        let run = RunOptions { overrides, ..RunOptions::default() };
        let (evaluator, files) = one_by_one(&opened, &run)?;
        if evaluator.is_none() && !options.accept.is_empty() {
            let what = "is for models that predict an image of each case, and the config of this bundle does more";
            return Err(RecipeError::new(format!("--accept {what}: remove it")));
        }
        let mut card = card(opened.bundle.metadata(), &opened, evaluator.as_ref());
        if let Some(unpacked) = &unpacked {
            unpacked.describe(&mut card.labels);
        }
        let fingerprint = evaluator.as_ref().map(|evaluator| evaluator.known.clone());
        if let Some(known) = fingerprint.as_ref().and_then(|known| known.modality.clone()) {
            card.modalities = vec![known];
        }
        let (evaluator, accept) = (evaluator.map(Mutex::new), options.accept.clone());
        Ok(Self { opened, card, evaluator, fingerprint, files, accept, _unpacked: unpacked })
    }
}

/// The evaluator of the inference config, with its weights, and their files; `None` if the config
/// does more than predict an image of each case.
fn one_by_one(opened: &OpenedBundle, options: &RunOptions) -> Outcome<(Option<OneByOne>, Vec<PathBuf>)> {
    let (mut config, run_id) = config(&opened.bundle, options)?;
    leave_out_lists(&mut config)?;
    let folder = opened.bundle.root().to_owned();
    let resolver = Resolver::new(config, folder.clone())?;
    let metadata = opened.bundle.metadata().cloned();
    let mut context = Context { folder: folder.clone(), case_by_case: true, metadata, ..Context::default() };
    let (mut networks, mut files) = (Networks::default(), Vec::new());
    let device = checks::device(&resolver)?;
    let mut engine = None;
    for id in [options.init_id.as_str(), &run_id] {
        if id != run_id && !resolver.config().has(id) {
            continue;
        }
        for effect in resolver.run(id)? {
            match effect {
                Effect::Run(found) if engine.is_none() => engine = Some(found),
                Effect::Load { loader, engine } => {
                    let loads = Loads::new(&loader, &folder).map_err(|faults| all(&faults))?;
                    files.push(networks.load(&loads, &folder, &checks::device_of(&engine)?)?);
                }
                Effect::Weights { network, path, old } => {
                    files.push(networks.load_whole(&network, (folder.as_path(), Path::new(&path)), old, &device)?);
                }
                Effect::Seed(seed) => context.seed = seed,
                // Results go to the folder of the command.
                Effect::MakeFolder(_) => {}
                // Sampling, or several engines: the config runs as it is.
                _ => return Ok((None, files)),
            }
        }
    }
    let Some(engine) = engine else { return Ok((None, files)) };
    let evaluator = Evaluator::new(&engine, &context).map_err(|faults| all(&faults))?;
    files.extend(evaluator.weights(&folder));
    Ok((evaluator.one_by_one(networks, &folder)?, files))
}

impl BundleModel {
    /// The network of its inference config, for an export.
    ///
    /// # Errors
    /// A config that does more than predict an image of each case.
    pub(crate) fn exported(&self) -> Outcome<Exported> {
        let Some(evaluator) = &self.evaluator else {
            let what =
                "does more than predict an image of each case, so that it does not predict with a single network";
            return Err(RecipeError::new(format!("the config of {} {what}", self.card.title)));
        };
        let mut evaluator = evaluator.lock().unwrap_or_else(PoisonError::into_inner);
        let network = evaluator.network()?;
        let numbered = self.card.labels.iter().map(|label| (label.value.to_string(), json!(label.name)));
        let labels: Map<String, Value> = numbered.collect();
        let config = self.opened.bundle.configs().iter().map(|config| config.path.as_path());
        let texts = config.map(|path| hearth_files::read_to_string(path).while_doing(|| path.display().to_string()));
        let texts = texts.collect::<Outcome<Vec<String>>>()?.join("\n");
        let activation = match self.card.kind {
            Kind::Labels => "softmax",
            Kind::Regions => "sigmoid",
            _ => "none",
        };
        let mut about = About::new(&self.card.title)
            .with("labels", Value::Object(labels).to_string())
            .with("activation", activation)
            .with("config", texts);
        if let Some(file) = self.files.first() {
            about = about.with("weights_blake3", sum(file)?);
        }
        Ok(Exported { network, about })
    }
}

fn card(metadata: Option<&Metadata>, opened: &OpenedBundle, evaluator: Option<&OneByOne>) -> Card {
    let root = opened.bundle.root();
    let folder = || root.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let title = metadata.and_then(|metadata| metadata.name.clone()).unwrap_or_else(folder);
    let version = metadata.and_then(|metadata| metadata.version.clone()).unwrap_or_default();
    let kind = match evaluator {
        None => Kind::Config,
        Some(evaluator) if evaluator.takes_argmax() => Kind::Labels,
        Some(evaluator) if evaluator.decides() => Kind::Regions,
        Some(_) => Kind::Image,
    };
    let named = metadata.map(Metadata::labels).unwrap_or_default();
    let skipped = u64::from(kind == Kind::Labels);
    let label = |(number, name): (&u64, &String)| ClassLabel::new((*number + 1 - skipped) as u32, name);
    let labels: Vec<ClassLabel> = match kind.is_map() {
        true => named.iter().filter(|(number, _)| **number >= skipped).map(label).collect(),
        false => Vec::new(),
    };
    let input = metadata.and_then(|metadata| metadata.inputs.first());
    let channels = input.map_or(1, |input| input.num_channels.unwrap_or(1));
    let modality = input.and_then(|input| input.modality.clone());
    Card {
        family: "MONAI bundle",
        description: format!("MONAI bundle {title} {version}").trim().to_owned(),
        made_by: format!("hearth {} MONAI bundle {title} {version}", env!("CARGO_PKG_VERSION")),
        kind,
        file_labels: labels.iter().map(|label| (label.name.clone(), label.value)).collect(),
        labels,
        channels: (0..channels).map(|place| modality.clone().unwrap_or_else(|| format!("channel {place}"))).collect(),
        modalities: modality_of_metadata(metadata).into_iter().collect(),
        checksum: None,
        ending: if kind == Kind::Image { "_pred.nii.gz".to_owned() } else { "_seg.nii.gz".to_owned() },
        probability_endings: if kind.is_map() { vec!["_prob.nii.gz"] } else { Vec::new() },
        names_a_winner: false,
        maps: Vec::new(),
        title,
    }
}

impl Model for BundleModel {
    fn card(&self) -> &Card {
        &self.card
    }

    fn abilities(&self) -> Abilities {
        Abilities { probabilities: self.card.kind.is_map(), ..Abilities::default() }
    }

    fn cases(&self, given: &Path, sought: Sought<'_>) -> Outcome<Vec<Case>> {
        let finder = CaseFinder {
            layout: None,
            images: if self.card.channels.len() > 1 { &self.card.channels } else { &[] },
            modalities: &self.card.modalities,
            series: None,
        };
        finder.find(given, sought)
    }

    fn preparer(&self) -> Arc<dyn Prepare> {
        Arc::new(BundlePreparer(self.accept.clone()))
    }

    fn predict(&self, prepared: Prepared, asked: Asked) -> Outcome<Prediction> {
        let case = prepared.take::<Files>()?;
        let Some(evaluator) = &self.evaluator else {
            return Err(RecipeError::new("this bundle runs as its config defines: `hearth bundle run`"));
        };
        let mut evaluator = evaluator.lock().unwrap_or_else(PoisonError::into_inner);
        let found = evaluator.predict(&case, asked.probabilities)?;
        let PredictedCase { image, probabilities, facts } = found;
        let remarks = facts.map(|facts| unlike(self, &facts)).unwrap_or_default();
        let (kind, made_by) = (self.card.kind, self.card.made_by.clone());
        let wanted = if kind == Kind::Labels { 1 } else { self.card.labels.len() };
        if kind.is_map() && wanted > 0 && image.channels() != wanted {
            let channels = image.channels();
            return Err(RecipeError::new(format!(
                "{}: the config saves {channels} channels, and its metadata names {wanted}",
                self.card.title
            )));
        }
        Ok(Prediction::Map(Box::new(BundleMap { image, kind, made_by, probabilities, remarks })))
    }

    fn fingerprint(&self) -> Option<&Fingerprint> {
        self.fingerprint.as_ref()
    }

    fn key(&self) -> Outcome<Value> {
        let configs = self.opened.bundle.configs().iter().map(|config| sum(&config.path));
        let configs = configs.collect::<Outcome<Vec<String>>>()?;
        let weights = self.files.iter().map(|file| sum(file)).collect::<Outcome<Vec<String>>>()?;
        Ok(json!({ "configs": configs, "weights": weights }))
    }

    fn record(&self) -> Map<String, Value> {
        let labels: Vec<&str> = self.card.labels.iter().map(|label| label.name.as_str()).collect();
        Map::from_iter([
            ("bundle".to_owned(), json!(self.card.title)),
            ("labels".to_owned(), json!(labels)),
            ("accept".to_owned(), json!(self.accept)),
        ])
    }

    fn as_bundle(&self) -> Option<&OpenedBundle> {
        Some(&self.opened)
    }
}

/// Finds the files of a case, in which these faults of DICOM series are accepted.
struct BundlePreparer(Vec<String>);

impl Prepare for BundlePreparer {
    fn prepare(&self, case: &Case, _previous: Option<&Path>) -> Outcome<Prepared> {
        let series = match case {
            Case::Series(found) => Some(found.series.name()),
            Case::File(_) | Case::Below(..) | Case::Slide(_) | Case::Item(_) | Case::Refused(..) => None,
        };
        let absolute = |file: &PathBuf| std::path::absolute(file).while_doing(|| file.display().to_string());
        let files = case.files().map(absolute).collect::<Outcome<Vec<PathBuf>>>()?;
        let bytes = files.iter().filter_map(|file| file.metadata().ok()).map(|facts| facts.len() * 8).sum();
        Ok(Prepared::new(Files { files, series, accept: self.0.clone() }, bytes))
    }
}

/// A prediction of a bundle.
struct BundleMap {
    image: Image,
    kind: Kind,
    made_by: String,
    probabilities: Option<Image>,
    remarks: Vec<String>,
}

impl PredictedMap for BundleMap {
    fn remarks(&self) -> &[String] {
        &self.remarks
    }

    fn image(&self) -> Outcome<Image> {
        Ok(self.image.clone())
    }

    fn write(&self, path: &Path) -> Outcome {
        let options = match self.kind.is_map() {
            true => NiftiOptions::label().description(&self.made_by),
            false => NiftiOptions::default().description(&self.made_by),
        };
        write_volume(path, &self.image, options)
    }

    fn probabilities(&self) -> Outcome<Option<Image>> {
        Ok(self.probabilities.clone())
    }

    fn write_probabilities(&self, paths: &[PathBuf]) -> Outcome {
        for (path, maps) in paths.iter().zip(&self.probabilities) {
            write_volume(path, maps, NiftiOptions::default().description(&self.made_by))?;
        }
        Ok(())
    }
}
