//! The Brain Imaging Data Structure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hearth_io::Parts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CHOOSE, CaseList, Layout, Target, Wants, same_modality, title, with_image, wrong};
use crate::dataset::case_name;
use crate::{CsvOptions, DataError, Field, Item, csv_items};

/// Suffixes of label maps, the most usual first.
const LABELS: [&str; 3] = ["dseg", "mask", "roi"];

/// Names of BIDS folders that contain images.
const DATA: [&str; 7] = ["anat", "pet", "dwi", "func", "perf", "fmap", "micr"];

/// The Brain Imaging Data Structure: `sub-01[/ses-02]/anat/sub-01_T1w.nii.gz`, label maps (`_dseg`,
/// `_mask`, `_roi`) next to the images or below `derivatives`, and `participants.tsv`, whose
/// columns are fields of the cases (age, sex, group). A case is a subject, or a session where there
/// are several. Images are chosen by suffix with `[data] images = ["T1w", "FLAIR"]`; `T1gd` is a
/// `T1w` with the entity `ce`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Bids {
    /// Entities that files must have, as in `{ acq = "highres", run = "1" }`.
    pub entities: BTreeMap<String, String>,
}

/// A file with the entities and suffix in its name.
struct Named {
    path: PathBuf,
    entities: BTreeMap<String, String>,
    suffix: String,
}

impl Layout for Bids {
    fn fits(&self, path: &Path) -> bool {
        path.join("dataset_description.json").is_file()
    }

    fn read(&self, path: &Path, wants: &Wants) -> Result<CaseList, DataError> {
        let files = self.files(path);
        let mut images = BTreeMap::<String, Vec<&Named>>::new();
        let mut labels = BTreeMap::<String, Vec<&Named>>::new();
        let label_name = match &wants.target {
            Target::Image { name } => name.as_deref(),
            _ => None,
        };
        let is_label = |file: &Named| match label_name {
            Some(name) => {
                file.suffix == name
                    || file.entities.get("desc").or(file.entities.get("label")).is_some_and(|d| d == name)
            }
            None => LABELS.contains(&&*file.suffix),
        };
        for file in &files {
            if is_label(file) {
                labels.entry(file.case()).or_default().push(file);
            } else if !file.derived(path) && !LABELS.contains(&&*file.suffix) {
                images.entry(file.case()).or_default().push(file);
            }
        }
        if images.is_empty() {
            return Err(wrong(path, "no subject has an image (sub-01/anat/sub-01_T1w.nii.gz)".to_owned()));
        }
        let wanted = self.wanted(path, &images, wants)?;
        let participants = participants(path)?;
        let (mut cases, mut lacking) = (Vec::new(), Vec::new());
        for (case, files) in &images {
            let find = |name: &String| -> Result<PathBuf, String> {
                let found: Vec<&&Named> = files.iter().filter(|file| file.is(name)).collect();
                match &found[..] {
                    [one] => Ok(one.path.clone()),
                    [] => Err(format!("has no {name}")),
                    more => {
                        let names: Vec<String> = more.iter().map(|file| file.name()).collect();
                        Err(format!("has several {name} ({}): choose by layout.entities", names.join(", ")))
                    }
                }
            };
            match wanted.iter().map(find).collect::<Result<Vec<_>, _>>() {
                Err(what) => lacking.push((case.clone(), what)),
                Ok(parts) => {
                    let mut item = with_image(Item::new(case), "image", Parts::new(parts));
                    let subject = case.split('_').next().unwrap_or(case);
                    item.fields = participants.get(subject).cloned().unwrap_or_default();
                    match label_of(labels.get(case).map(Vec::as_slice).unwrap_or_default()) {
                        Ok(Some(file)) => cases.push(item.with("label", file)),
                        Ok(None) => cases.push(item),
                        Err(several) => {
                            let what = format!("has several label maps ({several}): name one, task.label");
                            lacking.push((case.clone(), what));
                        }
                    }
                }
            }
        }
        let mut list = CaseList { name: name(path), modalities: wanted, ..CaseList::default() };
        list.lack(lacking, wants, |cases| wrong(path, format!("cases are incomplete:{cases}")))?;
        list.sort(cases, wants);
        Ok(list)
    }
}

impl Bids {
    /// All images of subjects, in raw data and derivatives.
    fn files(&self, root: &Path) -> Vec<Named> {
        let (mut found, mut next) = (Vec::new(), vec![(root.to_owned(), 0)]);
        while let Some((dir, depth)) = next.pop() {
            for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
                let path = entry.path();
                let name = entry.file_name().to_string_lossy().into_owned();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    let inside = name.starts_with("sub-") || name.starts_with("ses-") || DATA.contains(&&*name);
                    // derivatives/PIPELINE/sub-01/anat
                    let derived = name == "derivatives" || dir.ends_with("derivatives");
                    if (inside || derived) && depth < 8 {
                        next.push((path, depth + 1));
                    }
                } else if name.starts_with("sub-") && (name.ends_with(".nii.gz") || name.ends_with(".nii")) {
                    found.extend(Named::new(path));
                }
            }
        }
        found.retain(|file| self.entities.iter().all(|(key, value)| file.entities.get(key) == Some(value)));
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found
    }

    /// The suffixes of the images: the requested ones, or the only one.
    fn wanted(
        &self,
        path: &Path,
        images: &BTreeMap<String, Vec<&Named>>,
        wants: &Wants,
    ) -> Result<Vec<String>, DataError> {
        if !wants.images.is_empty() {
            return Ok(wants.images.clone());
        }
        let suffixes: BTreeSet<&str> = images.values().flatten().map(|file| file.suffix.as_str()).collect();
        match suffixes.iter().copied().collect::<Vec<_>>()[..] {
            [one] => Ok(vec![one.to_owned()]),
            ref several => {
                let what = format!("there are images of several kinds: {}; choose with {CHOOSE}", several.join(", "));
                Err(wrong(path, what))
            }
        }
    }
}

impl Named {
    fn new(path: PathBuf) -> Option<Self> {
        let stem = case_name(&path);
        let (entities, suffix) = stem.rsplit_once('_')?;
        let pairs =
            entities.split('_').map(|pair| pair.split_once('-').map(|(key, value)| (key.to_owned(), value.to_owned())));
        Some(Self { entities: pairs.collect::<Option<_>>()?, suffix: suffix.to_owned(), path })
    }

    /// The name of a case: `sub-01` or `sub-01_ses-02`.
    fn case(&self) -> String {
        let part = |key: &str| self.entities.get(key).map(|value| format!("{key}-{value}"));
        [part("sub"), part("ses")].into_iter().flatten().collect::<Vec<_>>().join("_")
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn derived(&self, root: &Path) -> bool {
        self.path.strip_prefix(root).is_ok_and(|inside| inside.starts_with("derivatives"))
    }

    /// Whether the file is an image with this suffix; the contrast agent distinguishes `T1gd` from
    /// `T1w`.
    fn is(&self, name: &str) -> bool {
        let enhanced = self.entities.contains_key("ce");
        if same_modality(&self.suffix, "T1w") {
            return same_modality(name, if enhanced { "T1gd" } else { "T1w" });
        }
        same_modality(&self.suffix, name)
    }
}

/// The label map of a case; with several, the first kind with exactly one.
fn label_of(files: &[&Named]) -> Result<Option<PathBuf>, String> {
    if let [one] = files {
        return Ok(Some(one.path.clone()));
    }
    for kind in LABELS {
        let of: Vec<&&Named> = files.iter().filter(|file| file.suffix == kind).collect();
        match &of[..] {
            [] => {}
            [one] => return Ok(Some(one.path.clone())),
            several => return Err(several.iter().map(|file| file.name()).collect::<Vec<_>>().join(", ")),
        }
    }
    Ok(None)
}

/// `participants.tsv`: the fields of each subject; `n/a` means no value.
fn participants(root: &Path) -> Result<BTreeMap<String, BTreeMap<String, Field>>, DataError> {
    let path = root.join("participants.tsv");
    if !path.is_file() {
        return Ok(BTreeMap::new());
    }
    let options = CsvOptions { case: Some("participant_id".to_owned()), ..CsvOptions::default() };
    let items = csv_items(&[path], &options)?;
    // A single n/a makes a column text; its other values may be numbers.
    let number = |field: Field| match field {
        Field::Text(text) if text == "n/a" => None,
        Field::Text(text) => Some(text.parse().map_or(Field::Text(text), Field::Number)),
        other => Some(other),
    };
    let fields = |item: Item| {
        let known = item.fields.into_iter().filter(|(key, _)| key != "participant_id");
        (item.case, known.filter_map(|(key, field)| Some((key, number(field)?))).collect())
    };
    Ok(items.into_iter().map(fields).collect())
}

fn name(root: &Path) -> String {
    let text = hearth_files::read_to_string(root.join("dataset_description.json")).unwrap_or_default();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    json["Name"].as_str().map_or_else(|| title(root), str::to_owned)
}

hearth_registry::entry!(
    dyn Layout => Bids,
    aliases: &["BIDS"],
    paper: "Gorgolewski et al., The brain imaging data structure, Scientific Data 2016, https://doi.org/10.1038/sdata.2016.44",
    example: "entities = { acq = \"highres\" }"
);
