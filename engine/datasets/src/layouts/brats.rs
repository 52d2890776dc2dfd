//! The layout of the BraTS challenges.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hearth_files::is_file_entry;
use hearth_io::Parts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CHOOSE, CaseList, Layout, Target, Wants, same_modality, title, with_image, wrong};
use crate::dataset::case_name;
use crate::{DataError, Item};

/// The depth of the search in nested folders: `HGG/CASE`, `Training/HGG/CASE`.
const DEPTH: usize = 3;

/// The order of channels in the Decathlon's Task01, so that networks work with both.
const ORDER: [&str; 4] = ["FLAIR", "T1w", "T1gd", "T2w"];

/// A folder for each case with a file for each contrast, as BraTS 2018 to 2021
/// (`CASE/CASE_t1ce.nii.gz`, `CASE_seg.nii.gz`) and 2023 and later (`CASE/CASE-t1c.nii.gz`,
/// `CASE-seg.nii.gz`); the folder of a single case can also be read. Contrasts are FLAIR, T1w,
/// T1gd, T2w in this order, or those of `[data] images`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Brats {}

impl Layout for Brats {
    fn fits(&self, path: &Path) -> bool {
        path.is_dir()
            && !path.join("dataset.json").exists()
            && folders(path).iter().any(|dir| !contrasts(dir).is_empty())
    }

    fn read(&self, path: &Path, wants: &Wants) -> Result<CaseList, DataError> {
        let wanted: Vec<String> =
            if wants.images.is_empty() { ORDER.map(str::to_owned).to_vec() } else { wants.images.clone() };
        let label = match &wants.target {
            Target::Image { name: Some(name) } => name.as_str(),
            _ => "seg",
        };
        let (mut cases, mut lacking) = (Vec::new(), Vec::new());
        for dir in folders(path) {
            let files = contrasts(&dir);
            if files.is_empty() {
                continue;
            }
            let case = dir.canonicalize().unwrap_or_else(|_| dir.clone());
            let case = case.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let find = |name: &String| {
                files
                    .iter()
                    .find(|(suffix, _)| same_modality(suffix, name))
                    .map(|(_, file)| file.clone())
                    .ok_or(name.clone())
            };
            match wanted.iter().map(find).collect::<Result<Vec<_>, _>>() {
                Ok(parts) => {
                    let mut item = with_image(Item::new(case), "image", Parts::new(parts));
                    if let Some(file) = files.get(label) {
                        item = item.with("label", file);
                    }
                    cases.push(item);
                }
                Err(name) => {
                    let known: Vec<&str> = files.keys().map(String::as_str).collect();
                    lacking.push((case, format!("has no {name} (it has {})", known.join(", "))));
                }
            }
        }
        let mut list = CaseList::default();
        list.lack(lacking, wants, |cases| {
            let advice =
                format!("add the files, take the cases out, or choose contrasts that all cases have with {CHOOSE}");
            wrong(path, format!("contrasts are missing:{cases}\n  {advice}"))
        })?;
        if cases.is_empty() && list.lacking.is_empty() {
            return Err(wrong(
                path,
                "no folder here is a case of BraTS (CASE/CASE_t1.nii.gz, CASE-t1n.nii.gz, ...)".into(),
            ));
        }
        cases.sort_by(|a, b| a.case.cmp(&b.case));
        let labels = labels_of(&cases);
        let mut list = CaseList { name: title(path), modalities: wanted, labels, ..list };
        list.sort(cases, wants);
        Ok(list)
    }
}

/// The labels of the challenge to which the names of all cases belong; empty if they belong to
/// several, or to one whose labels are unknown.
fn labels_of(cases: &[Item]) -> BTreeMap<u32, String> {
    // Label 3 was not used until 2021.
    const UNTIL_2021: [&str; 6] = ["Brats17_", "Brats18_", "Brats19_", "BraTS19_", "BraTS20_", "BraTS2021_"];
    // Adult gliomas, meningiomas, metastases, Africa; paediatric tumours have other labels.
    const FROM_2023: [&str; 4] = ["BraTS-GLI-", "BraTS-MEN-", "BraTS-MET-", "BraTS-SSA-"];
    let all = |starts: &[&str]| cases.iter().all(|item| starts.iter().any(|start| item.case.starts_with(start)));
    let enhancing = match (all(&UNTIL_2021), all(&FROM_2023)) {
        (true, _) => 4,
        (_, true) => 3,
        _ => return BTreeMap::new(),
    };
    let names = [(0, "background"), (1, "necrotic core"), (2, "edema"), (enhancing, "enhancing tumor")];
    names.map(|(label, name)| (label, name.to_owned())).into()
}

/// Lists a folder and its subfolders.
fn folders(path: &Path) -> Vec<PathBuf> {
    let (mut found, mut next) = (Vec::new(), vec![(path.to_owned(), 0)]);
    while let Some((dir, depth)) = next.pop() {
        if depth < DEPTH {
            let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
            next.extend(entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| (e.path(), depth + 1)));
        }
        found.push(dir);
    }
    found.sort_unstable();
    found
}

/// Lists the files of a case by the suffix of their names, such as `t1ce` in `CASE_t1ce.nii.gz`.
/// The list is empty if the folder is not a case; a case has at least two of the contrasts under
/// one name.
fn contrasts(dir: &Path) -> BTreeMap<String, PathBuf> {
    let mut cases: BTreeMap<String, BTreeMap<String, PathBuf>> = BTreeMap::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || !(name.ends_with(".nii.gz") || name.ends_with(".nii")) || !is_file_entry(&path) {
            continue;
        }
        let stem = case_name(&path);
        if let Some((case, suffix)) = stem.rsplit_once(['_', '-']) {
            cases.entry(case.to_owned()).or_default().insert(suffix.to_owned(), path);
        }
    }
    let known = |files: &BTreeMap<String, PathBuf>| {
        files.keys().filter(|suffix| ORDER.iter().any(|name| same_modality(name, suffix))).count() >= 2
    };
    // A folder of several cases is not a case.
    let mut whole = cases.into_values().filter(known);
    match (whole.next(), whole.next()) {
        (Some(files), None) => files,
        _ => BTreeMap::new(),
    }
}

hearth_registry::entry!(
    dyn Layout => Brats,
    aliases: &["BraTS"],
    paper: "Baid et al., The RSNA-ASNR-MICCAI BraTS 2021 Benchmark, https://arxiv.org/abs/2107.02314",
    example: ""
);
