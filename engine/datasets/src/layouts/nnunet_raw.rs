//! The layout of nnU-Net's raw data sets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hearth_files::is_file_entry;
use hearth_io::Parts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CaseList, Layout, Target, Wants, channels, some, title, with_image, wrong};
use crate::dataset::{case_name, read_list};
use crate::{DataError, Item};

/// A raw data set of nnU-Net (`DatasetXXX_Name`): `imagesTr/CASE_0000.nii.gz` with a file for each
/// channel, `labelsTr/CASE.nii.gz`, and `dataset.json` with `channel_names`, `labels` and
/// `file_ending`, or with a table `dataset` of the files of each case. A single picture (`.png`)
/// may hold all channels, as nnU-Net stores colours. A folder that only has images
/// `CASE_0000.nii.gz`, nnU-Net's input for prediction, can also be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NnUnetRaw {}

impl Layout for NnUnetRaw {
    fn fits(&self, path: &Path) -> bool {
        let listed = read_list(path).ok();
        match listed {
            Some(list) => is_nnunet(&list),
            None => path.is_dir() && !path.join("dataset.json").exists() && numbered_alone(path),
        }
    }

    fn read(&self, path: &Path, wants: &Wants) -> Result<CaseList, DataError> {
        if !path.join("dataset.json").is_file() {
            let mut list = CaseList { name: title(path), ..CaseList::default() };
            let mut lacking = Vec::new();
            list.unlabelled = cases(path, None, "", &BTreeMap::new(), wants, &mut lacking)?;
            list.lack(lacking, wants, |cases| wrong(path, format!("channels are missing:{cases}")))?;
            return Ok(list);
        }
        let json = read_list(path)?;
        let at = path.join("dataset.json");
        let ending = json["file_ending"].as_str().unwrap_or(".nii.gz").to_owned();
        let known = channel_names(&json);
        let modalities: BTreeMap<usize, String> = known.iter().cloned().enumerate().collect();
        channels(&known, &wants.images).map_err(|what| wrong(&at, what))?;
        let mut list = CaseList {
            name: json["name"].as_str().map_or_else(|| title(path), str::to_owned),
            labels: labels(&json["labels"]),
            modalities: if wants.images.is_empty() { known } else { wants.images.clone() },
            ..CaseList::default()
        };
        let images = path.join("imagesTr");
        let mut lacking = Vec::new();
        let mut found = match json["dataset"].as_object() {
            Some(table) => listed(path, table, &modalities, wants, &mut lacking)?,
            None if !images.is_dir() && path.join("gt_segmentations").is_dir() => {
                let what = "is a folder of nnUNet_preprocessed, and not a raw data set";
                let advice = "hearth plan writes recipes for it, whose data.layout says which of its folders is read";
                return Err(wrong(path, format!("{what}: {advice}")));
            }
            None => cases(&images, Some(&path.join("labelsTr")), &ending, &modalities, wants, &mut lacking)?,
        };
        let count = found.len() + lacking.len();
        list.lack(lacking, wants, |cases| match json["dataset"].is_object() {
            true => wrong(&at, format!("cases cannot be used:{cases}")),
            false => wrong(&images, format!("channels are missing:{cases}")),
        })?;
        if let Target::Image { .. } = wants.target {
            let (labelled, without): (Vec<Item>, Vec<Item>) =
                found.into_iter().partition(|item| item.files.contains_key("label"));
            found = labelled;
            let lacking = without.into_iter().map(|item| (item.case, "has no label".to_owned())).collect();
            let refused = |cases: &str| wrong(&path.join("labelsTr"), format!("no label of these cases:{cases}"));
            list.lack(lacking, wants, refused)?;
        }
        if let Some(said) = json["numTraining"].as_u64().filter(|said| *said != count as u64) {
            let what = format!("numTraining is {said}, and there are {count} cases");
            return Err(wrong(&at, format!("{what}: add what is missing, or correct the number")));
        }
        list.sort(found, wants);
        let test = path.join("imagesTs");
        if test.is_dir() {
            let mut lacking = Vec::new();
            list.unlabelled.extend(cases(&test, None, &ending, &modalities, wants, &mut lacking)?);
            list.lack(lacking, wants, |cases| wrong(&test, format!("channels are missing:{cases}")))?;
        }
        Ok(list)
    }
}

/// Whether the list is nnU-Net's and not the Decathlon's: version 2 states the suffix of file
/// names. A list with an entry for each case and without channel numbers in its images is the
/// Decathlon's.
fn is_nnunet(list: &Value) -> bool {
    list["channel_names"].is_object() || list["file_ending"].is_string()
}

/// The names of the channels, in order.
pub(super) fn channel_names(json: &Value) -> Vec<String> {
    let names = ["channel_names", "modality"].into_iter().find_map(|key| json[key].as_object());
    let mut numbered: Vec<(usize, String)> = names
        .into_iter()
        .flatten()
        .filter_map(|(number, name)| Some((number.parse().ok()?, name.as_str()?.to_owned())))
        .collect();
    numbered.sort_unstable();
    numbered.into_iter().map(|(_, name)| name).collect()
}

/// Names and values of the labels: nnU-Net writes them in reverse. With regions, each value gets
/// the name of the first.
pub(super) fn labels(json: &Value) -> BTreeMap<u32, String> {
    let mut out = BTreeMap::new();
    for (name, value) in json.as_object().into_iter().flatten() {
        let values: Vec<u64> = match value {
            Value::Array(values) => values.iter().filter_map(Value::as_u64).collect(),
            value => value.as_u64().into_iter().collect(),
        };
        for value in values.into_iter().filter_map(|value| u32::try_from(value).ok()) {
            out.entry(value).or_insert_with(|| name.clone());
        }
    }
    out
}

/// Splits a file's name `CASE_0001.nii.gz` into case and channel.
fn split_name(path: &Path, ending: &str) -> Option<(String, usize)> {
    let name = path.file_name()?.to_str()?;
    let stem = if ending.is_empty() { case_name(path) } else { name.strip_suffix(ending)?.to_owned() };
    let (case, number) = stem.rsplit_once('_')?;
    (number.len() == 4 && !case.is_empty()).then_some(())?;
    Some((case.to_owned(), number.parse().ok()?))
}

/// Whether a folder holds images with channel numbers, including a first channel.
fn numbered_alone(dir: &Path) -> bool {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let images: Vec<PathBuf> = files.filter(|path| is_file_entry(path) && is_image(path)).collect();
    !images.is_empty()
        && images.iter().all(|path| split_name(path, "").is_some())
        && images.iter().any(|path| split_name(path, "").is_some_and(|(_, channel)| channel == 0))
}

fn is_image(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let ends = [".nii.gz", ".nii", ".tif", ".tiff", ".png", ".npy", ".nrrd", ".mha", ".mgz", ".mgh"];
    !name.starts_with('.') && ends.iter().any(|end| name.ends_with(end))
}

/// Whether a file may hold several colours, which nnU-Net reads as channels.
fn is_picture(path: &Path) -> bool {
    path.extension().is_some_and(|end| ["png", "bmp"].iter().any(|known| end.eq_ignore_ascii_case(known)))
}

/// The cases of a folder of images with channel numbers, and those that lack a channel.
fn cases(
    images: &Path,
    labels: Option<&Path>,
    ending: &str,
    modalities: &BTreeMap<usize, String>,
    wants: &Wants,
    lacking: &mut Vec<(String, String)>,
) -> Result<Vec<Item>, DataError> {
    let io = |source| DataError::Io { path: images.to_owned(), source };
    let mut found: BTreeMap<String, BTreeMap<usize, PathBuf>> = BTreeMap::new();
    let mut others = Vec::new();
    for entry in std::fs::read_dir(images).map_err(io)? {
        let path = entry.map_err(io)?.path();
        match is_file_entry(&path).then(|| split_name(&path, ending)).flatten() {
            Some((case, channel)) => drop(found.entry(case).or_default().insert(channel, path)),
            None if is_file_entry(&path) && is_image(&path) => others.push(path),
            None => {}
        }
    }
    named(images, ending, others, labels.is_some())?;
    if found.is_empty() {
        return Err(wrong(images, format!("no image is named CASE_0000{ending}")));
    }
    let most = found.values().filter_map(|files| files.keys().max()).max().map_or(0, |last| last + 1);
    let count = modalities.len().max(most);
    let called = |channel: usize| modalities.get(&channel).cloned().unwrap_or_else(|| channel.to_string());
    let known: Vec<String> = (0..count).map(called).collect();
    let chosen = channels(&known, &wants.images).map_err(|what| wrong(images, what))?;
    let in_colour = count > 1 && most == 1 && found.values().flat_map(BTreeMap::values).all(|file| is_picture(file));
    let mut items = Vec::new();
    let label_of = |case: &str| {
        let file = labels.map(|dir| dir.join(format!("{case}{ending}")));
        file.filter(|file| is_file_entry(file))
    };
    if in_colour {
        for (case, mut files) in found {
            let file = files.remove(&0).into_iter().collect();
            let item = with_image(Item::new(&case), "image", Parts { files: file, channels: chosen.clone() });
            items.push(match label_of(&case) {
                Some(label) => item.with("label", label),
                None => item,
            });
        }
        return Ok(items);
    }
    let chosen = chosen.unwrap_or_else(|| (0..count).collect());
    for (case, files) in found {
        match chosen.iter().map(|channel| files.get(channel).cloned().ok_or(*channel)).collect::<Result<Vec<_>, _>>() {
            Ok(files) => {
                let item = with_image(Item::new(&case), "image", Parts::new(files));
                items.push(match label_of(&case) {
                    Some(label) => item.with("label", label),
                    None => item,
                });
            }
            Err(channel) => {
                let what = format!("has no {case}_{channel:04}{ending} ({})", known[channel]);
                lacking.push((case, what));
            }
        }
    }
    Ok(items)
}

/// Images without the number of a channel, or with another ending: a patient who trains must not be lost.
fn named(images: &Path, ending: &str, mut others: Vec<PathBuf>, trains: bool) -> Result<(), DataError> {
    if others.is_empty() {
        return Ok(());
    }
    others.sort_unstable();
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names: Vec<String> = others.iter().map(name).collect();
    let what = format!("images that are not named CASE_0000{ending}:\n  {}", some(&names));
    if trains {
        return Err(wrong(images, format!("{what}\n  rename them, or take them out")));
    }
    tracing::warn!("{}: {what}\n  they are not used", images.display());
    Ok(())
}

/// The cases of a table `dataset: { CASE: { images: [...], label: ... } }`.
fn listed(
    dir: &Path,
    table: &serde_json::Map<String, Value>,
    modalities: &BTreeMap<usize, String>,
    wants: &Wants,
    lacking: &mut Vec<(String, String)>,
) -> Result<Vec<Item>, DataError> {
    let at = dir.join("dataset.json");
    let known: Vec<String> = modalities.values().cloned().collect();
    let chosen = channels(&known, &wants.images).map_err(|what| wrong(&at, what))?;
    let file = |value: &Value| -> Result<PathBuf, String> {
        let name = value.as_str().ok_or("a file name is not a string")?;
        let path = dir.join(name);
        if path.is_file() { Ok(path) } else { Err(format!("{} does not exist", path.display())) }
    };
    let item = |case: &String, entry: &Value| -> Result<Item, String> {
        let files = entry["images"].as_array().ok_or("has no list `images`")?;
        let files = files.iter().map(file).collect::<Result<Vec<_>, String>>()?;
        let picked = match &chosen {
            None => files,
            Some(chosen) => {
                let pick = |channel: &usize| {
                    let missing = || format!("has no image of {} (channel {channel})", known[*channel]);
                    files.get(*channel).cloned().ok_or_else(missing)
                };
                chosen.iter().map(pick).collect::<Result<Vec<_>, String>>()?
            }
        };
        let mut item = with_image(Item::new(case), "image", Parts::new(picked));
        if !entry["label"].is_null() {
            item = item.with("label", file(&entry["label"])?);
        }
        Ok(item)
    };
    let mut items = Vec::new();
    for (case, entry) in table {
        match item(case, entry) {
            Ok(item) => items.push(item),
            Err(what) => lacking.push((format!("dataset.{case}"), what)),
        }
    }
    Ok(items)
}

hearth_registry::entry!(
    dyn Layout => NnUnetRaw,
    aliases: &["nnUNet"],
    paper: "Isensee et al., nnU-Net, Nature Methods 2021, https://doi.org/10.1038/s41592-020-01008-z",
    example: ""
);
