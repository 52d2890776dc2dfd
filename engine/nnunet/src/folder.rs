//! The folder of a trained model.

use std::fs;
use std::path::{Path, PathBuf};

use crate::dataset::DatasetJson;
use crate::error::{NnunetError, Result};
use crate::plans::Plans;

/// The folds that predict; the result is the mean of their outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Folds {
    /// All numbered folds of the folder, or `fold_all` if there are no others.
    #[default]
    Found,
    /// These folds, by the part of the name after `fold_`: `0`, `all`.
    These(Vec<String>),
}

/// A trained model: plans, data set, and a checkpoint per fold.
#[derive(Clone, Debug)]
pub struct ModelFolder {
    /// The folder.
    pub path: PathBuf,
    /// The plans.
    pub plans: Plans,
    /// The data set.
    pub dataset: DatasetJson,
}

impl ModelFolder {
    /// Whether a folder is a trained model of nnU-Net, with or without folds.
    pub fn is_one(path: &Path) -> bool {
        ["plans.json", "dataset.json"].iter().all(|name| path.join(name).is_file())
    }

    /// Reads the plans and the data set.
    ///
    /// # Errors
    /// Files that are missing or unusable.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(ModelFolder {
            path: path.to_owned(),
            plans: Plans::read(&path.join("plans.json"))?,
            dataset: DatasetJson::read(&path.join("dataset.json"))?,
        })
    }

    /// The name and the checkpoint file of each fold.
    ///
    /// # Errors
    /// A missing fold or checkpoint.
    pub fn checkpoints(&self, wanted: &Folds, name: &str) -> Result<Vec<(String, PathBuf)>> {
        let known = folds(&self.path);
        let chosen = match wanted {
            Folds::These(names) => names.clone(),
            Folds::Found => {
                let numbered: Vec<String> = known.iter().filter(|fold| *fold != "all").cloned().collect();
                if numbered.is_empty() { known.clone() } else { numbered }
            }
        };
        let file = |what: String| NnunetError::File { path: self.path.clone(), what };
        if chosen.is_empty() {
            return Err(file("there is no fold_0, fold_1, ... or fold_all with a checkpoint".to_owned()));
        }
        let mut found = Vec::with_capacity(chosen.len());
        for fold in chosen {
            if !known.contains(&fold) {
                return Err(file(format!("there is no fold_{fold}; it has folds {}", known.join(", "))));
            }
            let path = self.path.join(format!("fold_{fold}")).join(name);
            if !path.is_file() {
                let others = checkpoints(&self.path.join(format!("fold_{fold}")));
                let what = if others.is_empty() { "no checkpoint at all".to_owned() } else { others.join(", ") };
                return Err(file(format!("fold_{fold} has no {name}; it has {what}")));
            }
            found.push((fold, path));
        }
        Ok(found)
    }
}

/// The part after `fold_` in the names of subfolders: numbers in order, then others.
fn folds(path: &Path) -> Vec<String> {
    let mut found: Vec<String> = names(path).filter_map(|name| name.strip_prefix("fold_").map(str::to_owned)).collect();
    found.retain(|fold| path.join(format!("fold_{fold}")).is_dir());
    found.sort_by_key(|fold| (fold.parse::<u32>().unwrap_or(u32::MAX), fold.clone()));
    found
}

fn checkpoints(path: &Path) -> Vec<String> {
    let mut found: Vec<String> = names(path).filter(|name| name.ends_with(".pth")).collect();
    found.sort_unstable();
    found
}

fn names(path: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}
