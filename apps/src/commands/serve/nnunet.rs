//! Models of nnU-Net as models of a server: their images are files of numbered channels.

use std::path::{Path, PathBuf};

use hearth_data::dicom::{Authorship, Series, scan};
use hearth_data::{NiftiOptions, Progress, ReadOptions, read_image_with, write_nifti};
use hearth_recipe::nnunet::{Case, NnunetEnsemble, NnunetOptions, TotalSegmentator};
use hearth_serve::{Answer, Card, Format, Kind, Model, Refusal, Request};

use super::results::{failed, no_series, of_file, refused};
use crate::commands::predict::Args as PredictArgs;
use crate::commands::predict_nnunet::options;
use crate::commands::predict_total::total_options;
use crate::error::{Failure, Outcome};

/// The end of label maps, and of images that are read as they are.
const NIFTI: &str = ".nii.gz";

/// The files of an image in the order of its channels, and the series that they come from.
struct Channels {
    files: Vec<PathBuf>,
    series: Option<Series>,
}

/// The channels of a request: its files in the order of their names, or a series of DICOM. What is not
/// NIfTI is written as such.
fn channels(request: &Request<'_>, wanted: &[String]) -> Result<Channels, Refusal> {
    let mut files = vec![request.input.to_owned()];
    let mut series = None;
    if request.input.is_dir() || has_end(request.input, ".dcm") {
        let found = scan(request.input).map_err(refused)?;
        if found.series.is_empty() {
            files = entries(request.input)?;
        } else {
            series = Some(one_of(found.series, request.series)?);
        }
    }
    if files.len() != wanted.len() {
        let names: Vec<_> =
            files.iter().filter_map(|file| file.file_name()).map(|name| name.to_string_lossy()).collect();
        let (given, names, channels) = (files.len(), names.join(", "), wanted.join(", "));
        let what = format!("the request has {given} images ({names})");
        return Err(Refusal::Input(format!(
            "{what}, expected {} in the order of their names: {channels}",
            wanted.len()
        )));
    }
    let folder = request.out.join("channels");
    std::fs::create_dir(&folder).map_err(|error| failed("cannot make a temporary folder", error))?;
    let mut ready = Vec::new();
    for (index, file) in files.into_iter().enumerate() {
        if series.is_none() && has_end(&file, NIFTI) {
            ready.push(file);
            continue;
        }
        let mut reading = ReadOptions::default();
        if let Some(series) = &series {
            reading = reading.series(series.uid());
        }
        let image = read_image_with(&file, &reading).map_err(refused)?;
        let path = folder.join(format!("image_{index:04}{NIFTI}"));
        write_nifti(&path, &image, NiftiOptions::default())
            .map_err(|error| failed("cannot write a temporary file", error))?;
        ready.push(path);
    }
    Ok(Channels { files: ready, series })
}

fn has_end(path: &Path, end: &str) -> bool {
    path.to_string_lossy().to_lowercase().ends_with(end)
}

/// The images of a folder by name. A header whose voxels are in a file beside it is the image.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Refusal> {
    let listed = std::fs::read_dir(folder).map_err(|error| failed("cannot read a temporary folder", error))?;
    let mut all: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    all.retain(|path| ![".raw", ".zraw", ".img"].iter().any(|end| has_end(path, end)));
    all.sort_unstable();
    Ok(all)
}

/// The series that a client names; without a name there must be one.
fn one_of(mut all: Vec<Series>, wanted: Option<&str>) -> Result<Series, Refusal> {
    let named = |series: &Series, name: &str| {
        series.uid() == name
            || series.description().is_some_and(|text| text.eq_ignore_ascii_case(name))
            || series.number().is_some_and(|number| number.to_string() == name)
    };
    let list: Vec<String> = all.iter().map(Series::summary).collect();
    let found = match wanted {
        None => (all.len() == 1).then_some(0),
        Some(name) => all.iter().position(|series| named(series, name)),
    };
    match found {
        Some(place) => Ok(all.swap_remove(place)),
        None => Err(Refusal::Input(format!(
            "the study has {} series, say which by series=UID, number or description: {}",
            list.len(),
            list.join("; ")
        ))),
    }
}

/// As `hearth predict` has them; tiles of requests are not shown.
fn quiet(args: &PredictArgs) -> Outcome<NnunetOptions> {
    Ok(NnunetOptions { progress: Progress::None, ..options(args)? })
}

/// A model folder, or several that are averaged.
pub struct ServedNnunet {
    card: Card,
    ensemble: NnunetEnsemble,
}

impl ServedNnunet {
    pub fn open(name: String, args: &PredictArgs) -> Outcome<Self> {
        let mut folders = vec![args.run.clone()];
        folders.extend(args.nnunet.with.iter().cloned());
        let ensemble = NnunetEnsemble::open(&folders, &quiet(args)?)?;
        let first = ensemble.first();
        if first.configuration.previous_stage.is_some() {
            let what = "is the second stage of a cascade, which needs the labels of the first: it is not served";
            return Err(Failure::new(format!("{} {what}", args.run.display())));
        }
        let ending = &first.folder.dataset.file_ending;
        if ending != NIFTI {
            let what = format!("was trained with images that end in {ending}, and {NIFTI} is served");
            return Err(Failure::new(format!("{} {what}", args.run.display())));
        }
        let manager = &first.folder.dataset.labels;
        let labels = manager.heads.iter().filter_map(|(name, labels)| {
            // A region is written with one of its labels, and its own is the last.
            let label = *if manager.has_regions() { labels.last()? } else { labels.first()? };
            (label > 0).then(|| (name.clone(), u32::from(label)))
        });
        let card = Card {
            name,
            description: format!("nnU-Net {}, {}", first.folder.plans.dataset_name, first.configuration.name),
            kind: Kind::Segmentation,
            dimension: 3,
            labels: labels.collect(),
            channels: first.folder.dataset.channel_names.clone(),
            checksum: None,
        };
        Ok(Self { card, ensemble })
    }
}

impl Model for ServedNnunet {
    fn card(&self) -> &Card {
        &self.card
    }

    fn infer(&self, request: &Request<'_>) -> Result<Answer, Refusal> {
        let Channels { files, series } = channels(request, &self.card.channels)?;
        if request.format == Format::DicomSeg && series.is_none() {
            return Err(no_series());
        }
        let case = Case { name: "image".to_owned(), files };
        let found = self.ensemble.predict(&case, None, false).map_err(refused)?;
        let path = request.out.join(format!("label{NIFTI}"));
        found.write(&path).map_err(|error| failed("cannot write the result", error))?;
        let by = Authorship::new(&self.card.description).description(&self.card.name);
        of_file(path, request.format, &self.card.labels, series.as_ref(), &by, request.out)
    }
}

/// Several models side by side, as TotalSegmentator's.
pub struct ServedTotal {
    card: Card,
    total: TotalSegmentator,
}

impl ServedTotal {
    pub fn open(name: String, args: &PredictArgs) -> Outcome<Self> {
        let total = TotalSegmentator::open(&args.run, &total_options(args, quiet(args)?))?;
        let card = Card {
            name,
            description: format!("{} models of nnU-Net side by side", total.models().count()),
            kind: Kind::Segmentation,
            dimension: 3,
            labels: total.names().iter().map(|(label, name)| (name.clone(), u32::from(*label))).collect(),
            channels: vec![total.card().modality.to_string()],
            checksum: None,
        };
        Ok(Self { card, total })
    }
}

impl Model for ServedTotal {
    fn card(&self) -> &Card {
        &self.card
    }

    fn infer(&self, request: &Request<'_>) -> Result<Answer, Refusal> {
        let Channels { files, series } = channels(request, &self.card.channels)?;
        if request.format == Format::DicomSeg && series.is_none() {
            return Err(no_series());
        }
        let file = files.first().ok_or_else(|| Refusal::Input("the request has no image".to_owned()))?;
        let found = self.total.predict(file).map_err(refused)?;
        let path = request.out.join(format!("label{NIFTI}"));
        found.write(&path).map_err(|error| failed("cannot write the result", error))?;
        let by = Authorship::new(&self.card.description).description(&self.card.name);
        let mut answer = of_file(path, request.format, &self.card.labels, series.as_ref(), &by, request.out)?;
        if request.format == Format::Json {
            answer.facts.insert("statistics".to_owned(), found.statistics(false));
            answer.facts.insert("incomplete".to_owned(), found.incomplete().collect());
        }
        Ok(answer)
    }
}
