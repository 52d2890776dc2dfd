//! Cross-validation: [`CrossValidation`].

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::partition::{PartitionOptions, partition_dataset};
use super::{Field, Item};
use crate::DataError;

/// Returns the members of the chosen folds, fold by fold; a negative number counts from the end.
///
/// # Errors
/// If there is no such fold.
pub fn select_cross_validation_folds<T: Clone>(partitions: &[Vec<T>], folds: &[i64]) -> Result<Vec<T>, DataError> {
    let count = partitions.len();
    let mut out = Vec::new();
    for fold in folds {
        let place = if *fold < 0 { fold + count as i64 } else { *fold };
        let members = usize::try_from(place).ok().and_then(|p| partitions.get(p));
        let members = members.ok_or_else(|| DataError::Option(format!("there is no fold {fold}, only {count}")))?;
        out.extend_from_slice(members);
    }
    Ok(out)
}

/// Cases distributed to folds, shuffled as by MONAI's `CrossValidation` and
/// `create_cross_validation_datalist`.
#[derive(Clone, Debug)]
pub struct CrossValidation {
    folds: Vec<Vec<Item>>,
}

impl CrossValidation {
    /// Distributes the cases to `folds` folds.
    ///
    /// # Errors
    /// If there are fewer cases than folds.
    pub fn new(items: &[Item], folds: usize, seed: u32) -> Result<Self, DataError> {
        let options = PartitionOptions { shuffle: true, seed, ..PartitionOptions::default() };
        let folds = partition_dataset(items.len(), folds, options)?;
        let pick = |fold: Vec<usize>| fold.iter().map(|i| items[*i].clone()).collect();
        Ok(CrossValidation { folds: folds.into_iter().map(pick).collect() })
    }

    /// The number of folds.
    pub fn len(&self) -> usize {
        self.folds.len()
    }

    /// Whether there is no fold.
    pub fn is_empty(&self) -> bool {
        self.folds.is_empty()
    }

    /// Returns the cases of these folds.
    ///
    /// # Errors
    /// If there is no such fold.
    pub fn cases(&self, folds: &[i64]) -> Result<Vec<Item>, DataError> {
        select_cross_validation_folds(&self.folds, folds)
    }

    /// Returns training and validation cases of one run: all folds except this one, and this one.
    ///
    /// # Errors
    /// If there is no such fold.
    pub fn split(&self, fold: usize) -> Result<(Vec<Item>, Vec<Item>), DataError> {
        let others: Vec<i64> = (0..self.len()).filter(|f| *f != fold).map(|f| f as i64).collect();
        Ok((self.cases(&others)?, self.cases(&[fold as i64])?))
    }
}

/// Writes training and validation cases as a list like `dataset.json`: keys `training` and
/// `validation`, each a list of tables of files (relative to `root` if they are below it) and
/// fields.
///
/// # Errors
/// If a file of a case does not exist, or the list can't be written.
pub fn cross_validation_list(
    path: impl AsRef<Path>,
    training: &[Item],
    validation: &[Item],
    root: impl AsRef<Path>,
) -> Result<(), DataError> {
    let (path, root) = (path.as_ref(), root.as_ref());
    let wrong = |what: String| DataError::List { path: path.to_owned(), what };
    let missing: Vec<String> = training
        .iter()
        .chain(validation)
        .flat_map(Item::all_files)
        .filter(|file| !file.exists())
        .map(|file| file.display().to_string())
        .collect();
    if let Some(first) = missing.first() {
        return Err(wrong(format!("not written: {} files of the list don't exist, {first} among them", missing.len())));
    }
    let table = |item: &Item| {
        let mut table = Map::new();
        for (key, file) in &item.files {
            let file = file.strip_prefix(root).unwrap_or(file);
            table.insert(key.clone(), file.to_string_lossy().into_owned().into());
        }
        for (key, parts) in &item.parts {
            let name = |file: &PathBuf| file.strip_prefix(root).unwrap_or(file).to_string_lossy().into_owned();
            table.insert(key.clone(), parts.files.iter().map(name).collect());
        }
        for (key, field) in &item.fields {
            let value = match field {
                Field::Number(number) => json!(number),
                Field::Numbers(numbers) => json!(numbers),
                Field::Text(text) => json!(text),
            };
            table.insert(key.clone(), value);
        }
        Value::from(table)
    };
    let list = |items: &[Item]| items.iter().map(table).collect::<Value>();
    let text = serde_json::to_string_pretty(&json!({ "training": list(training), "validation": list(validation) }))
        .map_err(|e| wrong(e.to_string()))?;
    hearth_files::replace(path, text).map_err(|source| DataError::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_validates_once() {
        let items: Vec<Item> = (0..11).map(|i| Item::new(i.to_string())).collect();
        let folds = CrossValidation::new(&items, 5, 0).expect("enough cases");
        let mut validated = Vec::new();
        for fold in 0..folds.len() {
            let (training, validation) = folds.split(fold).expect("a fold");
            assert_eq!(training.len() + validation.len(), 11);
            assert!(validation.iter().all(|v| !training.contains(v)));
            validated.extend(validation.into_iter().map(|v| v.case));
        }
        validated.sort();
        let mut all: Vec<String> = items.into_iter().map(|i| i.case).collect();
        all.sort();
        assert_eq!(validated, all);
        assert!(folds.split(5).is_err() && folds.cases(&[-6]).is_err());
    }

    /// numpy's RandomState(0).shuffle(range(10)) is 2 8 4 9 1 6 7 3 0 5, distributed in turn.
    #[test]
    fn folds_are_monais() {
        let items: Vec<Item> = (0..10).map(|i| Item::new(i.to_string())).collect();
        let folds = CrossValidation::new(&items, 3, 0).expect("enough cases");
        let names = |folds_of: &[i64]| -> Vec<String> {
            folds.cases(folds_of).expect("folds").into_iter().map(|i| i.case).collect()
        };
        assert_eq!(names(&[0]), ["2", "9", "7", "5"]);
        assert_eq!(names(&[-1, 1]), ["4", "6", "0", "8", "1", "3"]);
    }

    #[test]
    fn a_list_names_what_exists_only() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("a.nii");
        std::fs::write(&file, "x").expect("written");
        let (here, gone) =
            (Item::new("a").with("image", &file), Item::new("b").with("image", dir.path().join("b.nii")));
        let here = here.with_field("label", Field::Numbers(vec![0.0, 1.0]));
        let list = dir.path().join("fold.json");
        cross_validation_list(&list, std::slice::from_ref(&here), &[], dir.path()).expect("written");
        let text = std::fs::read_to_string(&list).expect("a list");
        let read: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read, json!({ "training": [{ "image": "a.nii", "label": [0.0, 1.0] }], "validation": [] }));
        let error = cross_validation_list(&list, &[here], &[gone], dir.path()).expect_err("a missing file");
        assert!(error.to_string().contains("b.nii"), "{error}");
    }
}
