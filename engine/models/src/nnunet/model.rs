//! A trained model of nnU-Net, or several that are averaged, as a [`Model`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_data::{Image, Item, Parts, read_image_with};
use hearth_nnunet::{Case as Channels, LabelManager, Listed, Volume};
use hearth_recipe::nnunet::{CaseImage, Reader};
use hearth_recipe::{Context, Outcome, RecipeError};
use hearth_registry::counted;
use hearth_run::{Fingerprint, modality_of};
use serde_json::{Map, Value, json};

use crate::cases::{Case, CaseFinder, Sought, is_result};
use crate::finite::check_finite;
use crate::model::{
    Abilities, Asked, Card, ClassLabel, Kind, Model, PredictedMap, Prediction, Prepare, Prepared, Uncertainty,
};
use crate::nnunet::facts::{facts_of, fingerprint_of};
use crate::nnunet::{NnunetEnsemble, NnunetPredictor, Predicted, Preparation};
use crate::package::Unpacked;
use crate::spread::Spreading;

/// nnU-Net models as one model.
pub struct NnunetModel {
    ensemble: Arc<NnunetEnsemble>,
    card: Card,
    /// The properties of the first model's data set.
    fingerprint: Fingerprint,
    /// The folder of the labels of an earlier stage.
    previous: Option<PathBuf>,
    /// The faults of DICOM series that are accepted.
    accept: Vec<String>,
    /// The unpacked folder of a package, from which networks are read.
    _unpacked: Option<Unpacked>,
}

impl NnunetModel {
    /// Wraps opened models. `previous` is the folder of the labels of an earlier stage, for models
    /// that continue from them.
    ///
    /// # Errors
    /// Such a folder for models that continue from no earlier stage.
    pub fn new(ensemble: NnunetEnsemble, previous: Option<PathBuf>, unpacked: Option<Unpacked>) -> Outcome<Self> {
        let first = &ensemble.first().configuration;
        if previous.is_some() && first.previous_stage.is_none() {
            let what =
                "is for the second stage of a cascade, and this model of nnU-Net continues from no earlier stage";
            return Err(RecipeError::new(format!("--previous-stage {what} ({}): remove it", first.name)));
        }
        let mut card = card(&ensemble);
        if let Some(unpacked) = &unpacked {
            unpacked.describe(&mut card.labels);
        }
        let fingerprint = fingerprint_of(&ensemble.first().folder, &ensemble.first().configuration);
        Ok(Self { card, fingerprint, ensemble: Arc::new(ensemble), previous, accept: Vec::new(), _unpacked: unpacked })
    }

    /// Accepts faults of DICOM series, by name.
    #[must_use]
    pub fn accepting(self, faults: &[String]) -> Self {
        Self { accept: faults.to_vec(), ..self }
    }
}

/// The family of such a model in its card.
pub(crate) const FAMILY: &str = "model of nnU-Net";

fn card(ensemble: &NnunetEnsemble) -> Card {
    let first = ensemble.first();
    let (dataset, plans) = (&first.folder.dataset, &first.folder.plans);
    let manager = &dataset.labels;
    let regions = manager.has_regions();
    let heads = manager.heads.iter().filter(|(_, labels)| labels.iter().any(|label| *label > 0));
    let label = |(place, (name, labels)): (usize, &(String, Vec<u16>))| {
        let own = labels.first().copied().unwrap_or_default();
        ClassLabel::new(if regions { place as u32 + 1 } else { u32::from(own) }, name)
    };
    // A region is written with one of its labels, and its own one is the last.
    let file_label = |(name, labels): &(String, Vec<u16>)| {
        let label = *if regions { labels.last()? } else { labels.first()? };
        Some((name.clone(), u32::from(label)))
    };
    let member = |member: &NnunetPredictor| {
        let folds = counted(member.checkpoints.len(), "fold");
        format!("{} ({folds})", member.configuration.name)
    };
    let configurations = ensemble.members().iter().map(member).collect::<Vec<_>>().join(", ");
    let title = plans.dataset_name.clone();
    Card {
        family: FAMILY,
        description: format!("nnU-Net {title}, {configurations}"),
        made_by: format!("hearth {} nnU-Net {title} {configurations}", env!("CARGO_PKG_VERSION")),
        kind: if regions { Kind::Regions } else { Kind::Labels },
        labels: heads.clone().enumerate().map(label).collect(),
        file_labels: heads.filter_map(file_label).collect(),
        channels: dataset.channel_names.clone(),
        modalities: modality_of(&dataset.channel_names).into_iter().collect(),
        checksum: None,
        ending: dataset.file_ending.clone(),
        probability_endings: vec![".npz", ".pkl"],
        names_a_winner: false,
        maps: Vec::new(),
        title,
    }
}

impl Model for NnunetModel {
    fn card(&self) -> &Card {
        &self.card
    }

    fn abilities(&self) -> Abilities {
        Abilities { probabilities: true, uncertainty: self.ensemble.outputs() > 1, ..Abilities::default() }
    }

    fn cases(&self, given: &Path, sought: Sought<'_>) -> Outcome<Vec<Case>> {
        let first = self.ensemble.first();
        match numbered(first, given)? {
            Some(cases) if sought.series.is_none() => Ok(cases),
            Some(_) => {
                let what = format!("--series: {} holds no DICOM, but images of numbered channels", given.display());
                Err(RecipeError::new(what))
            }
            None => found(&self.card, given, sought),
        }
    }

    fn preparer(&self) -> Arc<dyn Prepare> {
        Arc::new(NnunetPreparer(self.ensemble.clone(), self.accept.clone()))
    }

    fn predict(&self, prepared: Prepared, asked: Asked) -> Outcome<Prediction> {
        let prepared = prepared.take::<Vec<Preparation>>()?;
        let mut found = self.ensemble.compute(prepared, asked.probabilities, asked.uncertainty)?;
        let labels = self.ensemble.first().folder.dataset.labels.clone();
        let uncertainty = found.uncertainty.take().map(|Spreading { std, vvc, volumes_ml }| {
            let std = Volume { channels: 1, shape: found.labels.shape, data: std };
            Uncertainty { std: found.grid().image(&std), vvc, volumes_ml }
        });
        Ok(Prediction::Map(Box::new(NnunetMap { found, labels, uncertainty })))
    }

    fn fingerprint(&self) -> Option<&Fingerprint> {
        Some(&self.fingerprint)
    }

    fn key(&self) -> Outcome<Value> {
        let members = self.ensemble.members().iter().map(|member| member.key());
        Ok(Value::Array(members.collect::<Outcome<Vec<Value>>>()?))
    }

    fn record(&self) -> Map<String, Value> {
        let folder = &self.ensemble.first().folder;
        let heads: Vec<&str> = folder.dataset.labels.heads.iter().map(|(name, _)| name.as_str()).collect();
        let models: Vec<String> =
            self.ensemble.members().iter().map(|member| member.folder.path.display().to_string()).collect();
        Map::from_iter([
            ("dataset".to_owned(), json!(folder.plans.dataset_name)),
            ("heads".to_owned(), json!(heads)),
            ("models".to_owned(), json!(models)),
            ("accept".to_owned(), json!(self.accept)),
        ])
    }

    fn previous_stage(&self, case: &Case) -> Outcome<Option<PathBuf>> {
        let first = self.ensemble.first();
        match (&first.configuration.previous_stage, &self.previous) {
            (None, _) => Ok(None),
            (Some(_), Some(folder)) => first.previous_labels(folder, &channels_of(case)).map(Some),
            (Some(stage), None) => Err(RecipeError::new(format!(
                "{} continues from the labels of {stage}: predict with that first, and give its results by \
                 --previous-stage",
                first.configuration.name
            ))),
        }
    }

    /// `plans.json` and `dataset.json`, which nnU-Net's ensembles read next to probabilities.
    fn companions(&self, asked: Asked) -> Outcome<Vec<(String, String)>> {
        if !asked.probabilities {
            return Ok(Vec::new());
        }
        let folder = &self.ensemble.first().folder;
        let files = [("plans.json", &folder.plans.raw), ("dataset.json", &folder.dataset.raw)];
        files
            .into_iter()
            .map(|(name, value)| Ok((name.to_owned(), serde_json::to_string_pretty(value)? + "\n")))
            .collect()
    }
}

/// A case of numbered channels with its files.
fn of_channels(case: Channels) -> Case {
    Case::Item(Box::new(Item::new(&case.name).with_parts("image", Parts::new(case.files))))
}

/// The files of a case by channel, and its name.
fn channels_of(case: &Case) -> Channels {
    Channels { name: case.stem().to_string_lossy().into_owned(), files: case.files().cloned().collect() }
}

/// The cases `NAME_0000`, `NAME_0001`, ... of a folder, with its other images as refused ones, or
/// the case that a file is of; none where nothing is numbered.
fn numbered(first: &NnunetPredictor, given: &Path) -> Outcome<Option<Vec<Case>>> {
    let ending = &first.folder.dataset.file_ending;
    let is_numbered = |path: &Path| -> Option<String> {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let (name, number) = name.strip_suffix(ending.as_str())?.rsplit_once('_')?;
        let digits = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty();
        digits.then(|| name.to_owned())
    };
    if given.is_dir() {
        let entries = std::fs::read_dir(given).while_doing(|| format!("cannot read the folder {}", given.display()))?;
        let any = entries.flatten().any(|entry| is_numbered(&entry.path()).is_some());
        if !any {
            return Ok(None);
        }
        let Listed { cases, refused } = first.listed(given)?;
        // What an earlier call wrote there has no number, and is no image.
        let refused = refused.into_iter().filter(|(path, _)| !is_result(path));
        let refused = refused.map(|(path, why)| Case::Refused(path, why));
        return Ok(Some(cases.into_iter().map(of_channels).chain(refused).collect()));
    }
    if !given.is_file() {
        return Err(RecipeError::new(format!("-i {}: there is no such file or folder", given.display())));
    }
    let Some(name) = is_numbered(given) else { return Ok(None) };
    let folder = given.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Listed { cases, refused } = first.listed(folder)?;
    let found: Vec<Case> = cases.into_iter().filter(|case| case.name == name).map(of_channels).collect();
    match refused.into_iter().find(|(path, _)| found.is_empty() && is_numbered(path).as_deref() == Some(&name)) {
        Some((path, why)) => Ok(Some(vec![Case::Refused(path, why)])),
        None => Ok(Some(found)),
    }
}

/// Cases with other names and formats: files, data sets, DICOM series. Each has all channels.
fn found(card: &Card, given: &Path, sought: Sought<'_>) -> Outcome<Vec<Case>> {
    // A single channel needs no name.
    let images = if card.channels.len() > 1 { &card.channels[..] } else { &[] };
    let finder = CaseFinder { layout: None, images, modalities: &card.modalities, series: None };
    let cases = finder.find(given, sought)?;
    let (wanted, ending) = (card.channels.len(), &card.ending);
    for case in &cases {
        let files = case.files().count();
        // One file may hold all channels; reading checks this.
        if files != wanted
            && !(files == 1 && matches!(case, Case::File(_) | Case::Below(..)) && wanted > 1 && is_nifti(case))
        {
            let name = case.name();
            return Err(RecipeError::new(format!(
                "{name} has {files} of the model's {wanted} channels ({}): name their files NAME_0000{ending}, \
                 NAME_0001{ending}, ... and give the folder, or a table with a column for each",
                card.channels.join(", ")
            )));
        }
    }
    Ok(cases)
}

fn is_nifti(case: &Case) -> bool {
    case.files().all(|file| {
        let name = file.to_string_lossy().to_lowercase();
        name.ends_with(".nii.gz") || name.ends_with(".nii")
    })
}

/// Reads cases for models of nnU-Net, which accepts these faults of DICOM series.
struct NnunetPreparer(Arc<NnunetEnsemble>, Vec<String>);

impl Prepare for NnunetPreparer {
    fn prepare(&self, case: &Case, previous: Option<&Path>) -> Outcome<Prepared> {
        let first = self.0.first();
        let image = read_case(case, first.reader(), &first.folder.dataset.file_ending, &self.1)?;
        let bytes = 4 * image.volume.data.len() as u64 * (2 + self.0.members().len() as u64);
        let facts = facts_of(&image.volume, image.spacing);
        Ok(Prepared::new(self.0.prepare(image, previous)?, bytes).with_facts(Some(facts)))
    }
}

/// Reads the image of a case: with nnU-Net's reader if its files have the model's format, otherwise
/// with the reader for their own format, which accepts these faults of DICOM series.
///
/// # Errors
/// Files that cannot be read, and values that are not finite.
pub(crate) fn read_case(case: &Case, reader: Reader, ending: &str, accept: &[String]) -> Outcome<CaseImage> {
    let channels = channels_of(case);
    let own = |path: &PathBuf| path.is_file() && path.to_string_lossy().ends_with(ending);
    let image = match !matches!(case, Case::Series(_)) && channels.files.iter().all(own) {
        true => hearth_recipe::nnunet::read(reader, &channels),
        false => read_others(case, reader, &channels, accept),
    }?;
    check_finite(&image.volume.data)?;
    Ok(image)
}

/// Reads the image of a case by the readers of its files' own formats.
fn read_others(case: &Case, reader: Reader, channels: &Channels, accept: &[String]) -> Outcome<CaseImage> {
    let (mut whole, mut reading): (Option<CaseImage>, _) = (None, case.reading());
    reading.accept = accept.to_vec();
    for file in &channels.files {
        let image = read_image_with(file, &reading)?;
        let one = CaseImage::of_image(&image, reader)?;
        whole = Some(match whole {
            Some(first) => first.with_channels(one).while_doing(|| file.display().to_string())?,
            None => one,
        });
    }
    whole.ok_or_else(|| RecipeError::new(format!("{} has no file", case.name())))
}

/// The prediction of nnU-Net models.
struct NnunetMap {
    found: Predicted,
    labels: LabelManager,
    /// The differences between its predictions.
    uncertainty: Option<Uncertainty>,
}

impl PredictedMap for NnunetMap {
    fn image(&self) -> Outcome<Image> {
        let grid = self.found.grid();
        if !self.labels.has_regions() {
            return Ok(grid.image(&self.found.labels));
        }
        let heads: Vec<&Vec<u16>> = self.labels.heads.iter().map(|(_, labels)| labels).collect();
        let mut regions = Volume::<u8>::zeros(heads.len(), self.found.labels.shape);
        let voxels = self.found.labels.voxels();
        for (labels, channel) in heads.iter().zip(regions.data.chunks_mut(voxels.max(1))) {
            for (label, out) in self.found.labels.data.iter().zip(channel) {
                *out = u8::from(labels.contains(label));
            }
        }
        Ok(grid.image(&regions))
    }

    fn file_image(&self) -> Outcome<Image> {
        Ok(self.found.grid().image(&self.found.labels))
    }

    fn write(&self, path: &Path) -> Outcome {
        self.found.write(path)
    }

    fn probabilities(&self) -> Outcome<Option<Image>> {
        Ok(self.found.probabilities.as_ref().map(|found| self.found.grid().image(found)))
    }

    fn uncertainty(&self) -> Option<&Uncertainty> {
        self.uncertainty.as_ref()
    }

    fn write_probabilities(&self, paths: &[PathBuf]) -> Outcome {
        if let [probabilities, properties] = paths {
            self.found.write_probabilities(probabilities)?;
            self.found.write_properties(properties)?;
        }
        Ok(())
    }
}
