//! Pairing of predictions with labels.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hearth_data::writers::SUFFIXES;
use hearth_data::{quality, readers};
use hearth_models::ensemble::Disagreement;

use crate::error::{Failure, Outcome};

/// A prediction and its label.
pub struct Pair {
    /// The case's name.
    pub case: String,
    /// The prediction's file.
    pub pred: PathBuf,
    /// The label's file.
    pub label: PathBuf,
}

/// All pairs, and the files without a counterpart, with what is missing.
pub struct Pairs {
    /// The pairs, by case.
    pub found: Vec<Pair>,
    /// Files without a counterpart, and the kind of the missing file.
    pub alone: Vec<(PathBuf, &'static str)>,
}

/// Suffixes that MONAI, nnU-Net and users add to a case's name.
const ENDS: [&str; 11] = [
    "_0000",
    "_pred",
    "_prediction",
    "_predictions",
    "_seg",
    "_segmentation",
    "_label",
    "_labels",
    "_mask",
    "_trans",
    "_gt",
];

/// Suffixes of maps that `hearth predict` and `hearth ensemble` write next to a label map.
const MAPS: [&str; 3] = ["_prob", "_std", "_saliency"];

/// Whether a file is such a map of a case that has its pair.
fn is_map_of(case: &str, found: &[Pair]) -> bool {
    let of_ensembles = Disagreement::ALL.iter().map(|map| format!("_{}", map.word()));
    let mut ends = MAPS.iter().map(|end| (*end).to_owned()).chain(of_ensembles);
    ends.any(|end| {
        case.strip_suffix(&end).is_some_and(|rest| found.iter().any(|pair| plain(&pair.case) == plain(rest)))
    })
}

/// The case's name without such a suffix.
fn plain(case: &str) -> &str {
    ENDS.iter().find_map(|end| case.strip_suffix(end)).filter(|rest| !rest.is_empty()).unwrap_or(case)
}

/// Finds the pairs. Two files are a pair. Two folders are paired by case name: the file's name or, if
/// that has no counterpart, the name without suffixes such as `_pred` and `_seg`.
pub fn find(pred: &Path, label: &Path) -> Outcome<Pairs> {
    for (path, option) in [(pred, "-p"), (label, "-l")] {
        if !path.exists() {
            return Err(Failure::new(format!("{option} {}: no such file or folder", path.display())));
        }
    }
    let is_folder = |path: &Path| path.is_dir() && readers::choose(path).is_err();
    match (is_folder(pred), is_folder(label)) {
        (false, false) => {
            let case = pred.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            let case = SUFFIXES.iter().find_map(|end| case.strip_suffix(end)).map_or(case.clone(), str::to_owned);
            Ok(Pairs { found: vec![Pair { case, pred: pred.to_owned(), label: label.to_owned() }], alone: Vec::new() })
        }
        (true, true) => folders(pred, label),
        _ => Err(Failure::new("give two files or two folders: a prediction and its label, or all of both")),
    }
}

fn folders(pred: &Path, label: &Path) -> Outcome<Pairs> {
    let unique = |dir: &Path| -> Outcome<BTreeMap<String, PathBuf>> {
        let mut cases = BTreeMap::new();
        for (case, path) in quality::cases_below(dir)? {
            if let Some(other) = cases.insert(case.clone(), path.clone()) {
                let both = format!("{} and {}", other.display(), path.display());
                return Err(Failure::new(format!(
                    "two files are called {case}: {both}; give a folder with one of each"
                )));
            }
        }
        Ok(cases)
    };
    let (preds, mut labels) = (unique(pred)?, unique(label)?);
    let mut found = Vec::new();
    let mut left = Vec::new();
    for (case, pred) in preds {
        match labels.remove(&case) {
            Some(label) => found.push(Pair { case, pred, label }),
            None => left.push((case, pred)),
        }
    }
    let mut alone = Vec::new();
    for (case, pred) in left {
        let mut alike: Vec<String> = labels.keys().filter(|name| plain(name) == plain(&case)).cloned().collect();
        match (alike.pop(), alike.is_empty()) {
            (Some(name), true) => {
                if let Some(label) = labels.remove(&name) {
                    found.push(Pair { case: plain(&case).to_owned(), pred, label });
                }
            }
            _ => alone.push((case, pred)),
        }
    }
    alone.retain(|(case, _)| !is_map_of(case, &found));
    let mut alone: Vec<(PathBuf, &'static str)> = alone.into_iter().map(|(_, pred)| (pred, "label")).collect();
    alone.extend(labels.into_values().map(|path| (path, "prediction")));
    if found.is_empty() {
        let (pred, label) = (pred.display(), label.display());
        return Err(Failure::new(format!("no file of {pred} has a label of its name in {label}")));
    }
    found.sort_by(|a, b| a.case.cmp(&b.case));
    Ok(Pairs { found, alone })
}
