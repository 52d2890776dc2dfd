//! [`DecathlonDataset`]: a folder in the layout of the Medical Segmentation Decathlon.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use hearth_registry::counted;
use serde_json::Value;

use super::{Field, Item};
use crate::DataError;
use crate::numpy::shuffled_indices;

/// The maximum number of bytes of `dataset.json`.
const MAX_LIST: u64 = 64 << 20;

/// The content of `dataset.json` in a Decathlon folder.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DecathlonDataset {
    /// Name of the task.
    pub name: String,
    /// Names of the label values.
    pub labels: BTreeMap<u32, String>,
    /// Names of the channels.
    pub modality: BTreeMap<u32, String>,
    /// Labelled cases (`image`, `label`), in the order of the file. Further numbers and strings of
    /// an entry (`weight`, `fold`) become fields.
    pub training: Vec<Item>,
    /// Labelled cases that the file reserves for validation (`validation`); they are not in `training`.
    pub validation: Vec<Item>,
    /// Unlabelled cases (`image`).
    pub test: Vec<Item>,
}

impl DecathlonDataset {
    /// Reads `dir/dataset.json` and checks that the files it names exist.
    ///
    /// # Errors
    /// If the list is missing, damaged, or names a file that does not exist or lies outside the
    /// folder.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, DataError> {
        let dir = dir.as_ref();
        let list = read_list(dir)?;
        let wrong = |what: String| DataError::List { path: dir.join("dataset.json"), what };
        let entries = |key: &str| match &list[key] {
            Value::Array(entries) => Ok(entries.as_slice()),
            Value::Null => Ok(&[][..]),
            _ => Err(wrong(format!("`{key}` is not a list"))),
        };
        let labelled = |key: &str| -> Result<Vec<Item>, DataError> {
            let mut items = Vec::new();
            for (i, entry) in entries(key)?.iter().enumerate() {
                let image = listed_file(dir, &entry["image"]).map_err(|e| wrong(format!("{key}[{i}].image: {e}")))?;
                let label = listed_file(dir, &entry["label"]).map_err(|e| wrong(format!("{key}[{i}].label: {e}")))?;
                let mut item = Item::new(case_name(&image)).with("image", image).with("label", label);
                item.fields = fields(entry);
                items.push(item);
            }
            Ok(items)
        };
        let mut training = labelled("training")?;
        let count = training.len();
        training.extend(labelled("validation")?);
        check_parts(&training, count).map_err(wrong)?;
        let mut test = Vec::new();
        for (i, entry) in entries("test")?.iter().enumerate() {
            let value = if entry.is_object() { &entry["image"] } else { entry };
            let image = listed_file(dir, value).map_err(|e| wrong(format!("test[{i}]: {e}")))?;
            test.push(Item::new(case_name(&image)).with("image", image));
        }
        if training.is_empty() && test.is_empty() {
            return Err(wrong("names no case: neither `training` nor `test` has entries".to_owned()));
        }
        make_unique(&mut training);
        make_unique(&mut test);
        let validation = training.split_off(count);
        Ok(DecathlonDataset {
            name: list["name"].as_str().unwrap_or_default().to_owned(),
            labels: names(&list["labels"]),
            modality: names(&list["modality"]),
            training,
            validation,
            test,
        })
    }

    /// Splits into training and validation: the last `n` cases of the list are for validation.
    ///
    /// # Errors
    /// If no case would be left to train on.
    pub fn split_last(&self, n: usize) -> Result<(Vec<Item>, Vec<Item>), DataError> {
        let count = self.training.len();
        if n >= count {
            return Err(DataError::Option(format!("{} to validate, but only {count} with labels", counted(n, "case"))));
        }
        let (train, validate) = self.training.split_at(count - n);
        Ok((train.to_vec(), validate.to_vec()))
    }

    /// Splits into training and validation, drawn by [`split_fraction`].
    ///
    /// # Errors
    /// If `val_frac` is not a fraction.
    pub fn split_fraction(&self, val_frac: f64, seed: u32) -> Result<(Vec<Item>, Vec<Item>), DataError> {
        split_fraction(&self.training, val_frac, seed)
    }
}

/// Reads `dir/dataset.json`.
pub(crate) fn read_list(dir: &Path) -> Result<Value, DataError> {
    let path = dir.join("dataset.json");
    let io = |source| DataError::Io { path: path.clone(), source };
    let wrong = |what: String| DataError::List { path: path.clone(), what };
    let length = std::fs::metadata(&path).map_err(io)?.len();
    if length > MAX_LIST {
        return Err(wrong(format!("{length} bytes, more than the limit of {MAX_LIST}")));
    }
    let text = hearth_files::read_to_string(&path).map_err(io)?;
    // Some editors start a file with a byte order mark.
    serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|e| wrong(format!("not JSON: {e}")))
}

/// Splits a list into training and validation like MONAI's `DecathlonDataset` and `TciaDataset`:
/// indices are shuffled by numpy's `RandomState(seed)`, and the first `int(count * val_frac)` are
/// for validation.
///
/// # Errors
/// If `val_frac` is not a fraction.
pub fn split_fraction(items: &[Item], val_frac: f64, seed: u32) -> Result<(Vec<Item>, Vec<Item>), DataError> {
    if !(0.0..1.0).contains(&val_frac) {
        return Err(DataError::Option(format!("val_frac {val_frac} is not between 0 and 1")));
    }
    let order = shuffled_indices(items.len(), seed);
    let n = (items.len() as f64 * val_frac) as usize;
    let pick = |indices: &[usize]| indices.iter().map(|i| items[*i].clone()).collect();
    Ok((pick(&order[n..]), pick(&order[..n])))
}

/// Resolves a path of the list, which must be below the folder.
pub(crate) fn listed_file(dir: &Path, value: &Value) -> Result<PathBuf, String> {
    let name = value.as_str().ok_or_else(|| "is not a path".to_owned())?;
    let relative = Path::new(name);
    let inside = relative.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    if !inside {
        return Err(format!("{name} leaves the data set's folder"));
    }
    let path: PathBuf = dir.join(relative).components().filter(|c| *c != Component::CurDir).collect();
    // Some copies of the data are unpacked but listed as .nii.gz.
    let plain = name.strip_suffix(".gz").map(|n| dir.join(n));
    match (path.is_file(), plain) {
        (true, _) => Ok(path),
        (false, Some(plain)) if plain.is_file() => Ok(plain),
        _ => Err(format!("{} does not exist", path.display())),
    }
}

/// The values of an entry other than files: numbers, lists of numbers, and strings.
fn fields(entry: &Value) -> BTreeMap<String, Field> {
    let entries = entry.as_object().into_iter().flatten();
    let others = entries.filter(|(key, _)| !["image", "label"].contains(&key.as_str()));
    others.filter_map(|(key, value)| Some((key.clone(), serde_json::from_value(value.clone()).ok()?))).collect()
}

/// File name without suffix.
pub(crate) fn case_name(path: &Path) -> String {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    [".nii.gz", ".nii", ".mgz", ".mgh", ".tif", ".tiff", ".svs", ".png", ".jpg", ".npy"]
        .iter()
        .find_map(|s| name.strip_suffix(s))
        .unwrap_or(&name)
        .to_owned()
}

/// Checks that no image is both in the first `count` cases, which train, and in the others, which validate.
pub(crate) fn check_parts(items: &[Item], count: usize) -> Result<(), String> {
    let image = |item: &Item| {
        let parts = item.parts.get("image").and_then(|parts| parts.files.first());
        item.files.get("image").or(parts).cloned()
    };
    let (train, validate) = items.split_at(count.min(items.len()));
    let train: BTreeMap<PathBuf, &str> = train.iter().filter_map(|item| Some((image(item)?, &*item.case))).collect();
    match validate.iter().find(|item| image(item).is_some_and(|image| train.contains_key(&image))) {
        None => Ok(()),
        Some(item) => Err(format!("the case {} is in `training` and in `validation`: remove it from one", item.case)),
    }
}

/// Numbers cases with the same name (files in several folders).
pub(crate) fn make_unique(items: &mut [Item]) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for item in items {
        let count = seen.entry(item.case.clone()).or_default();
        *count += 1;
        if *count > 1 {
            item.case = format!("{}#{count}", item.case);
        }
    }
}

pub(crate) fn names(value: &Value) -> BTreeMap<u32, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.filter_map(|(k, v)| Some((k.parse().ok()?, v.as_str()?.to_owned()))).collect()
}
