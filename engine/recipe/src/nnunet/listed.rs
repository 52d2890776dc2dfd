//! A data set in any layout that training reads, and its fingerprint.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hearth_data::dicom;
use hearth_data::layouts::{self, Layout, Target, Wants};
use hearth_data::readers::{check_grids, read_segments};
use hearth_data::transforms::check_same_grid;
use hearth_data::{Image, Item, Pipeline, Progress, ReadOptions};
use hearth_nnunet::planner::{Fingerprint, Fingerprinting};
use hearth_nnunet::{DatasetJson, Volume};
use hearth_registry::{Named, Node, Registry};
use serde_json::{Value, json};

use super::raw::first_reader;
use super::source::Source;
use super::steps::as_read;
use super::train::recipe_of;
use crate::error::{Context, Outcome, RecipeError};

/// Layouts in the order of recognition, after those that a user registers.
const LAYOUTS: [&str; 11] = [
    "Slides",
    "Csv",
    "JsonList",
    "NnUnetRaw",
    "Decathlon",
    "Bids",
    "Brats",
    "LabelStore",
    "ImageFolders",
    "Pictures",
    "Dicom",
];

/// Layouts whose cases have no label map.
const WITHOUT_LABELS: [&str; 2] = ["Slides", "Pictures"];

/// Facts about a data set that its files do not contain.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The layout; recognised by default.
    pub layout: Option<Named<dyn Layout>>,
    /// The modalities that make up an image, as in `data.images` of a recipe.
    pub images: Vec<String>,
    /// The column, key or suffix of the label map, if it is not the usual one.
    pub label: Option<String>,
    /// Names of the channels, which decide their normalisation; by default those of the data set.
    pub channels: Vec<String>,
    /// Names of the labels 1, 2, ...; for DICOM, the regions that become these labels.
    pub labels: Vec<String>,
}

/// A data set of label maps in any layout: cases with image and label.
pub struct ListedSet {
    /// The name of the data set.
    pub name: String,
    /// nnU-Net's class that reads files like the first image.
    pub reader: String,
    source: Source,
    pipeline: Pipeline,
    /// The cases, by name.
    items: Vec<Item>,
    channels: Vec<String>,
    /// Names of labels other than the background, if known before label maps are read.
    labels: BTreeMap<u32, String>,
    ending: String,
}

impl ListedSet {
    /// Finds the cases of a data set.
    ///
    /// # Errors
    /// A data set that cannot be read, cases without label maps, or channels without names.
    pub fn open(path: &Path, listing: &Listing) -> Outcome<Self> {
        let doing = || path.display().to_string();
        let layout = match &listing.layout {
            Some(layout) => layout.clone(),
            None => recognized(path)?,
        };
        if WITHOUT_LABELS.contains(&layout.name()) {
            let what = format!("its layout is {}, whose cases have no label map", layout.name());
            return Err(RecipeError::new(what).context(doing()));
        }
        let target = Target::Image { name: listing.label.clone() };
        let mut list = layout.read(path, &Wants { images: listing.images.clone(), target, ..Wants::default() })?;
        if list.labelled.is_empty() {
            let what = format!("none of the {} cases has a label", list.unlabelled.len());
            return Err(RecipeError::new(what).context(doing()));
        }
        check_grids(&list.labelled).map_err(|what| RecipeError::new(what).context(doing()))?;
        list.labelled.sort_by(|a, b| a.case.cmp(&b.case));
        let (images, label) = (listing.images.clone(), listing.label.clone());
        let regions = regions(&list.labelled, &listing.labels).while_doing(doing)?;
        let labels = match listing.labels.is_empty() && regions.is_empty() {
            true => list.labels.into_iter().filter(|(value, _)| *value > 0).collect(),
            false => {
                let names = if regions.is_empty() { &listing.labels } else { &regions };
                (1..).zip(names.iter().cloned()).collect()
            }
        };
        let first = image_file(&list.labelled[0]).unwrap_or_default();
        let channels = match (listing.channels.is_empty(), list.modalities.is_empty()) {
            (false, _) => listing.channels.clone(),
            (true, false) => list.modalities,
            (true, true) => vec![modality(&first).ok_or_else(|| unnamed_channels(path))?],
        };
        let ending = ending(&first);
        let source = Source { layout: Some(layout), images, label, regions };
        let (reader, pipeline) = (first_reader(&ending).to_owned(), source.pipeline()?);
        Ok(ListedSet { name: list.name, reader, source, pipeline, items: list.labelled, channels, labels, ending })
    }

    /// The names of the cases.
    pub fn names(&self) -> Vec<String> {
        self.items.iter().map(|item| item.case.clone()).collect()
    }

    /// Reads all cases with the steps of the recipe, and computes the fingerprint and the
    /// `dataset.json` that nnU-Net would have.
    ///
    /// # Errors
    /// The first case that cannot be read, by name; labels without a name, or with a gap in their
    /// numbers.
    pub fn fingerprint(&self, progress: Progress) -> Outcome<(Fingerprint, DatasetJson)> {
        let mut gathered = Fingerprinting::new(self.items.len());
        let mut found = BTreeSet::new();
        let running = progress.start("fingerprint", self.items.len() as u64);
        for item in &self.items {
            let doing = || format!("case {}", item.case);
            let (volume, spacing, labels) = self.read(item).while_doing(doing)?;
            let values: BTreeSet<u16> = labels.data.iter().copied().filter(|label| *label > 0).collect();
            let unnamed = values.iter().find(|value| !self.labels.contains_key(&u32::from(**value)));
            if let Some(value) = unnamed.filter(|_| !self.labels.is_empty()) {
                let known: Vec<String> = self.labels.iter().map(|(value, name)| format!("{value} {name}")).collect();
                let what = format!("its label map has the label {value}; those with a name are {}", known.join(", "));
                return Err(RecipeError::new(what).context(doing()));
            }
            found.extend(values);
            gathered.add(&volume, spacing, &labels).while_doing(doing)?;
            running.advance();
        }
        running.finish();
        Ok((gathered.finish(), self.dataset(&found)?))
    }

    /// The text of a recipe that trains a configuration of `plans` on this data set.
    ///
    /// # Errors
    /// Same as [`training_recipe`](super::training_recipe).
    pub fn recipe(&self, plans: &Value, dataset: &DatasetJson, configuration: &str) -> Outcome<String> {
        recipe_of(plans, dataset, configuration, &self.source)
    }

    /// Reads a case as the recipe does: image, voxel size (z, y, x) and labels.
    fn read(&self, item: &Item) -> Outcome<(Volume, [f64; 3], Volume<u16>)> {
        let mut samples = self.pipeline.run_deterministic(item.sample())?;
        let mut sample = samples.pop().ok_or_else(|| RecipeError::new("reading it gives nothing"))?;
        let image: Image = sample.take_image("image")?;
        let (label, expected) = (sample.take_image("label")?, self.channels.len());
        if image.channels() != expected {
            let what = format!("it has {} channels, and {expected} have a name", image.channels());
            let names = self.channels.join(", ");
            return Err(RecipeError::new(format!("{what} ({names}): name each with --channels")));
        }
        check_same_grid(&image, &label).map_err(|error| error.at("label"))?;
        let (volume, spacing, labels) = as_read(image, label)?;
        match volume.data.iter().find(|value| !value.is_finite()) {
            Some(value) => Err(RecipeError::new(format!("a voxel is {value}"))),
            None => Ok((volume, spacing, labels)),
        }
    }

    /// The content of nnU-Net's `dataset.json` for label maps with these labels.
    fn dataset(&self, found: &BTreeSet<u16>) -> Outcome<DatasetJson> {
        let named = |value: &u16| (u32::from(*value), format!("label_{value}"));
        let labels = if self.labels.is_empty() { found.iter().map(named).collect() } else { self.labels.clone() };
        let mut table = serde_json::Map::from_iter([("background".to_owned(), json!(0))]);
        table.extend(labels.into_iter().map(|(value, name)| (name, json!(value))));
        let numbered = |(channel, name): (usize, &String)| (channel.to_string(), json!(name));
        let channels: serde_json::Map<String, Value> = self.channels.iter().enumerate().map(numbered).collect();
        let dataset = json!({
            "name": self.name, "channel_names": channels, "labels": table,
            "numTraining": self.items.len(), "file_ending": self.ending,
        });
        Ok(DatasetJson::parse(dataset)?)
    }
}

/// The recognised layout of a data set, by name.
fn recognized(path: &Path) -> Outcome<Named<dyn Layout>> {
    if path.exists() {
        let registry = Registry::<dyn Layout>::new();
        let names = registry.entries().iter().map(|entry| entry.name);
        // A layout that needs options must be named.
        let own = names.filter(|name| !LAYOUTS.contains(name) && *name != "NnUnetPreprocessed");
        let built = own.chain(LAYOUTS).filter_map(|name| Named::<dyn Layout>::new(&Node::named(name)).ok());
        if let Some(layout) = built.into_iter().find(|layout| layout.fits(path)) {
            return Ok(layout);
        }
    }
    // The error states what is expected.
    layouts::recognize(path)?;
    Err(RecipeError::new(format!("{}: its layout has no name; give --layout", path.display())))
}

/// The DICOM regions that become labels: the requested ones or all, which each case must have.
/// Empty if labels are label maps.
fn regions(items: &[Item], wanted: &[String]) -> Outcome<Vec<String>> {
    let drawn: Vec<(&Item, &PathBuf)> =
        items.iter().filter_map(|item| Some((item, item.files.get("label").filter(|file| is_drawn(file))?))).collect();
    if drawn.is_empty() || !wanted.is_empty() {
        return Ok(if drawn.is_empty() { Vec::new() } else { wanted.to_vec() });
    }
    let mut first: Option<(&str, Vec<String>)> = None;
    for (item, file) in drawn {
        let found = read_segments(file, &ReadOptions::default()).while_doing(|| format!("case {}", item.case))?;
        let mut names: Vec<String> = found.into_iter().map(|segment| segment.name).collect();
        names.sort_unstable();
        match &first {
            None => first = Some((&item.case, names)),
            Some((_, known)) if *known == names => {}
            Some((case, known)) => {
                let (known, names, other) = (known.join(", "), names.join(", "), &item.case);
                let what = format!("case {case} has the regions {known}, and case {other} has {names}");
                return Err(RecipeError::new(format!("{what}: choose with --labels")));
            }
        }
    }
    Ok(first.map(|(_, names)| names).unwrap_or_default())
}

/// Whether a label is a DICOM structure set or segmentation.
fn is_drawn(file: &Path) -> bool {
    file.is_dir() || file.extension().is_some_and(|end| end.eq_ignore_ascii_case("dcm"))
}

/// The first file of a case's image, or its folder.
fn image_file(item: &Item) -> Option<PathBuf> {
    let parts = item.parts.get("image").and_then(|parts| parts.files.first());
    item.files.get("image").or(parts).cloned()
}

/// The modality of a DICOM series.
fn modality(image: &Path) -> Option<String> {
    let is_dicom = image.is_dir() || image.extension().is_some_and(|end| end.eq_ignore_ascii_case("dcm"));
    let scan = is_dicom.then(|| dicom::scan(image).ok()).flatten()?;
    scan.series.first().map(|series| series.modality().to_owned())
}

fn unnamed_channels(path: &Path) -> RecipeError {
    let what = "the data set does not name the channels of its images, and their names decide how they are normalised";
    RecipeError::new(format!("{}: {what}; give --channels, as --channels CT, or --channels T1 T2", path.display()))
}

/// The file extension that nnU-Net uses for files like this one.
fn ending(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let endings = [".nii", ".png", ".bmp", ".tif", ".tiff"];
    let known = endings.into_iter().find(|ending| name.ends_with(ending));
    known.unwrap_or(".nii.gz").to_owned()
}
