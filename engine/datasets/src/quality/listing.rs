//! The files of a data set.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hearth_io::{Parts, readers};
use serde_json::Value;

use super::{Finding, Kind, Severity, VerifyOptions};
use crate::dataset::{case_name, csv_columns, dicom_items, listed_file, names, read_list};
use crate::layouts::{self, Csv, Layout, Target, Wants};
use crate::{CsvOptions, DataError, Field, Item};

/// The depth of the search in nested folders.
const DEPTH: usize = 8;

/// The description of a data set that it contains.
pub(super) struct Listing {
    pub name: String,
    /// Names of the label values; empty if unknown.
    pub labels: BTreeMap<u32, String>,
    /// Number of channels, if the data set states it.
    pub channels: Option<usize>,
    pub cases: Vec<Listed>,
    pub findings: Vec<Finding>,
}

/// One case of a list.
pub(super) struct Listed {
    pub case: String,
    pub split: &'static str,
    pub image: Result<Parts, String>,
    pub label: Option<Result<Parts, String>>,
    /// Whether the label was drawn on the image (DICOM), so that it has the image's grid.
    pub drawn: bool,
    /// Rows and columns of the centres of regions, if the image is a slide.
    pub regions: Vec<[i64; 2]>,
    /// The image among several volumes of a DICOM series.
    pub series: Option<String>,
}

/// The volume of a DICOM series that an item names.
fn series_of(item: &Item) -> Option<String> {
    match item.fields.get("image_series") {
        Some(Field::Text(series)) => Some(series.clone()),
        _ => None,
    }
}

/// Lists the cases by the layout that training would use; a Decathlon's `dataset.json` is read
/// entry by entry, so that missing files become findings. Without a layout, `imagesTr` and
/// `labelsTr` (and similar folders) are matched by file name. Without those folders, all images are
/// listed, and in DICOM their annotations.
pub(super) fn list(dir: &Path, options: &VerifyOptions) -> Result<Listing, DataError> {
    let plain = options.images.is_empty() && options.label.is_none();
    let mut listing = match layouts::recognize_list(dir) {
        Some(layout) if plain && layout.lists_files() => {
            let mut listing = by_list(dir)?;
            // Every file is there, and training refuses the list for another reason.
            let whole = listing.cases.iter().all(|case| case.image.is_ok() && !matches!(case.label, Some(Err(_))));
            let wants = Wants { target: Target::label(), ..Wants::default() };
            if let Some(error) = layout.read(dir, &wants).err().filter(|_| whole) {
                listing.findings.push(refused(Severity::Error, &error));
            }
            listing
        }
        Some(layout) => by_layout(dir, &*layout, options)?,
        None => {
            let mut listing = by_folders(dir)?;
            let wants = Wants { target: Target::label(), ..Wants::default() };
            if let Err(error) = layouts::read(dir, &wants) {
                listing.findings.push(refused(Severity::Note, &error));
            }
            listing
        }
    };
    let lacks = listing.findings.iter().any(|finding| finding.severity == Severity::Error);
    if listing.cases.is_empty() && !lacks {
        let what = "holds neither a dataset.json nor an image that a reader knows".to_owned();
        return Err(DataError::List { path: dir.to_owned(), what });
    }
    // If modalities are chosen, the others lie next to them.
    if options.images.is_empty() {
        unlisted(&mut listing, dir);
    }
    Ok(listing)
}

/// The finding for a folder that training does not read as a data set.
fn refused(severity: Severity, error: &DataError) -> Finding {
    Finding::new(severity, Kind::Refused, format!("`train` does not read this as a data set: {error}"))
}

/// Lists the cases as training uses them.
fn by_layout(dir: &Path, layout: &dyn Layout, options: &VerifyOptions) -> Result<Listing, DataError> {
    let target = Target::Image { name: options.label.clone() };
    let mut wants = Wants { images: options.images.clone(), target, keep_lacking: true };
    // A table of target numbers has no label map.
    if Csv::default().fits(dir)
        && options.label.is_none()
        && !csv_columns(dir, &CsvOptions::default())?.0.iter().any(|column| column == "label")
    {
        wants.target = Target::Nothing;
    }
    let found = layout.read(dir, &wants)?;
    let held = found.validation.unwrap_or_default();
    let listed = |mut item: Item, split| {
        let series = series_of(&item);
        let mut of = |key: &str| {
            let file = item.files.remove(key).map(|file| Parts::new(vec![file]));
            file.or_else(|| item.parts.remove(key))
        };
        let (image, label) = (of("image").ok_or_else(|| "the list names none".to_owned()), of("label").map(Ok));
        Listed { case: item.case, split, image, label, drawn: false, regions: Vec::new(), series }
    };
    let split = |item: &Item| if held.contains(&item.case) { "validation" } else { "training" };
    let (in_slides, cases): (Vec<Item>, Vec<Item>) =
        found.labelled.into_iter().partition(|item| centre(item).is_some());
    let slides = slides(in_slides, &held);
    let labelled = cases.into_iter().map(|item| {
        let split = split(&item);
        listed(item, split)
    });
    let unlabelled = found.unlabelled.into_iter().map(|item| listed(item, "test"));
    let cases = labelled.chain(unlabelled).chain(slides).collect();
    let channels = Some(found.modalities.len()).filter(|n| *n > 0);
    let advice = "restore the file, or take the case out of the list";
    let lacks = |(case, what): (String, String)| {
        Finding::new(Severity::Error, Kind::MissingFile, what).advice(advice).case(&case)
    };
    let findings = found.lacking.into_iter().map(lacks).collect();
    Ok(Listing { name: found.name, labels: found.labels, channels, cases, findings })
}

/// Row and column of the centre of a region of a slide.
fn centre(item: &Item) -> Option<[i64; 2]> {
    match item.fields.get("location")? {
        Field::Numbers(numbers) if item.fields.contains_key("slide") => {
            let [row, column] = numbers[..] else { return None };
            Some([row as i64, column as i64])
        }
        _ => None,
    }
}

/// A case for each slide and split, with all of its regions.
fn slides(items: Vec<Item>, held: &[String]) -> Vec<Listed> {
    let held: BTreeSet<&String> = held.iter().collect();
    let mut slides: BTreeMap<(PathBuf, &'static str), Vec<[i64; 2]>> = BTreeMap::new();
    for mut item in items {
        let split = if held.contains(&item.case) { "validation" } else { "training" };
        if let (Some(centre), Some(file)) = (centre(&item), item.files.remove("image")) {
            slides.entry((file, split)).or_default().push(centre);
        }
    }
    let listed = |((file, split), regions): ((PathBuf, &'static str), Vec<[i64; 2]>)| Listed {
        case: case_name(&file),
        split,
        image: Ok(one(file)),
        label: None,
        drawn: false,
        regions,
        series: None,
    };
    slides.into_iter().map(listed).collect()
}

/// Reads one file as an image.
fn one(file: PathBuf) -> Parts {
    Parts::new(vec![file])
}

fn by_list(dir: &Path) -> Result<Listing, DataError> {
    let list = read_list(dir)?;
    let entries = |key: &str| list[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut cases = Vec::new();
    for (split, key) in [("training", "training"), ("validation", "validation"), ("test", "test")] {
        for (i, entry) in entries(key).iter().enumerate() {
            let image = if entry.is_object() { &entry["image"] } else { entry };
            let label = (entry["label"] != Value::Null).then(|| listed_file(dir, &entry["label"]).map(one));
            let image = listed_file(dir, image);
            let case = image.as_ref().map_or_else(|_| format!("{key}[{i}]"), |path| case_name(path));
            let image = image.map(one);
            cases.push(Listed { case, split, image, label, drawn: false, regions: Vec::new(), series: None });
        }
    }
    let names = names(&list["labels"]);
    let mut findings = Vec::new();
    if let Some(count) = list["numTraining"].as_u64()
        && count as usize != entries("training").len()
    {
        let listed = entries("training").len();
        let what = format!("dataset.json states {count} training cases, but lists {listed}");
        findings.push(Finding::new(Severity::Note, Kind::MissingFile, what));
    }
    let channels = list["modality"].as_object().or(list["channel_names"].as_object()).map(serde_json::Map::len);
    let name = list["name"].as_str().unwrap_or_default().to_owned();
    Ok(Listing { name, labels: names, channels: channels.filter(|n| *n > 0), cases, findings })
}

fn by_folders(dir: &Path) -> Result<Listing, DataError> {
    let mut cases = Vec::new();
    for (split, images, labels) in
        [("training", "imagesTr", "labelsTr"), ("test", "imagesTs", "labelsTs"), ("training", "images", "labels")]
    {
        if !dir.join(images).is_dir() {
            continue;
        }
        let of_labels = if dir.join(labels).is_dir() { images_below(&dir.join(labels))? } else { Vec::new() };
        let by_name: BTreeMap<String, &PathBuf> = of_labels.iter().map(|path| (case_name(path), path)).collect();
        for image in images_below(&dir.join(images))? {
            let case = case_name(&image);
            // In nnU-Net the names of images, not labels, end with the channel number.
            let found = by_name.get(&case).or_else(|| by_name.get(case.strip_suffix("_0000")?));
            let label = match (found, split) {
                (Some(path), _) => Some(Ok(one((*path).clone()))),
                (None, "training") if !of_labels.is_empty() => Some(Err(format!("no label of this name in {labels}"))),
                (None, _) => None,
            };
            cases.push(Listed {
                case,
                split,
                image: Ok(one(image)),
                label,
                drawn: false,
                regions: Vec::new(),
                series: None,
            });
        }
    }
    let mut findings = Vec::new();
    if cases.is_empty() {
        (cases, findings) = drawn_and_alone(dir)?;
    }
    let name = dir.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Listing { name, labels: BTreeMap::new(), channels: None, cases, findings })
}

/// Lists DICOM series with their annotations, and every other image separately.
fn drawn_and_alone(dir: &Path) -> Result<(Vec<Listed>, Vec<Finding>), DataError> {
    let mut findings = Vec::new();
    // If there is no pair, or series share a folder, every image is checked separately.
    let pairs = dicom_items(dir).unwrap_or_else(|error| {
        // Without annotations this is not a problem.
        if hearth_dicom::scan(dir).is_ok_and(|scan| !scan.annotations.is_empty()) {
            let what = format!("annotations are not compared with their images: {error}");
            findings.push(Finding::new(Severity::Note, Kind::Unpaired, what));
        }
        Vec::new()
    });
    let listed = |mut item: Item| {
        let series = series_of(&item);
        let mut file = |key| item.files.remove(key);
        let (image, label) = (file("image")?, file("seg").map(|drawn| Ok(one(drawn))));
        Some(Listed {
            case: item.case,
            split: "training",
            image: Ok(one(image)),
            label,
            drawn: true,
            regions: Vec::new(),
            series,
        })
    };
    // A folder of slices is one image, and a folder may hold only an annotation.
    let of_a_pair = |path: &PathBuf| {
        let parts = pairs.iter().flat_map(|item| item.files.values());
        parts.into_iter().any(|part| path.starts_with(part) || part.starts_with(path))
    };
    let mut others = images_below(dir)?;
    others.retain(|path| !of_a_pair(path));
    // The slices of one series are one image, as they are to `predict`.
    let slices =
        |scan: hearth_dicom::Scan| scan.series.len() == 1 && scan.annotations.is_empty() && scan.failed.is_empty();
    if others.len() > 1
        && others.iter().all(|path| path.parent() == Some(dir) && path.is_file())
        && is_image(dir)
        && hearth_dicom::scan(dir).is_ok_and(slices)
    {
        others = vec![dir.to_owned()];
    }
    let alone = |image: PathBuf| {
        let case = case_name(&image);
        Listed {
            case,
            split: "training",
            image: Ok(one(image)),
            label: None,
            drawn: false,
            regions: Vec::new(),
            series: None,
        }
    };
    let mut cases: Vec<Listed> = pairs.iter().cloned().filter_map(listed).collect();
    cases.extend(others.into_iter().map(alone));
    Ok((cases, findings))
}

/// Reports images in the folders of the list that are not listed.
fn unlisted(listing: &mut Listing, dir: &Path) {
    let files =
        listing.cases.iter().flat_map(|c| [c.image.as_ref().ok(), c.label.as_ref().and_then(|l| l.as_ref().ok())]);
    let known: BTreeSet<&Path> = files.flatten().flat_map(|parts| &parts.files).map(PathBuf::as_path).collect();
    // Files outside the data set's folder are ignored.
    let around = |folder: &Path| dir != folder && dir.starts_with(folder);
    let folders: BTreeSet<&Path> =
        known.iter().filter_map(|path| path.parent()).filter(|folder| !around(folder)).collect();
    let mut found = Vec::new();
    for folder in folders {
        let beside = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        found.extend(
            beside.filter(|p| p.is_file() && !hidden(p) && !known.contains(p.as_path())).filter(|p| is_image(p)),
        );
    }
    found.sort_unstable();
    if let Some(first) = found.first() {
        let more = if found.len() > 1 { format!(" and {} more", found.len() - 1) } else { String::new() };
        let (are, belong) = if found.len() > 1 { ("are", "belong") } else { ("is", "belongs") };
        let what = format!("{}{more} {are} next to the data set's images and {belong} to no case", first.display());
        listing.findings.push(Finding::new(Severity::Note, Kind::Unlisted, what));
    }
}

/// Lists the images of a folder and its subfolders, sorted, each with the name of its case: the
/// file name without its extension. A folder that a reader recognizes as one image counts as one.
///
/// # Errors
/// If a folder cannot be read.
pub fn cases_below(dir: &Path) -> Result<Vec<(String, PathBuf)>, DataError> {
    Ok(images_below(dir)?.into_iter().map(|path| (case_name(&path), path)).collect())
}

/// Lists the images of a folder and its subfolders, sorted. A folder that a reader recognizes as
/// one image counts as one.
pub(super) fn images_below(dir: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut found = Vec::new();
    let mut folders = vec![(dir.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let io = |source| DataError::Io { path: folder.clone(), source };
        for entry in std::fs::read_dir(&folder).map_err(io)? {
            let entry = entry.map_err(io)?;
            let path = entry.path();
            if hidden(&path) {
                continue;
            }
            // Links to folders are not followed: they may form a loop.
            let folder = entry.file_type().map_err(io)?.is_dir();
            if is_image(&path) {
                found.push(path);
            } else if folder && depth < DEPTH {
                folders.push((path, depth + 1));
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Whether a file is hidden, such as the `._` files that macOS adds to archives.
fn hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'))
}

fn is_image(path: &Path) -> bool {
    readers::choose(path).is_ok()
}
