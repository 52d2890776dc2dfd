//! Several models side by side whose label maps become one, as TotalSegmentator uses its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hearth_nnunet::total::{resampled, restored, total_classes};
use hearth_nnunet::{Case, ModelFolder, Volume};
use hearth_registry::unknown;
use serde_json::{Map, Value, json};

use crate::nnunet::predict::{NnunetOptions, NnunetPredictor};
use hearth_recipe::nnunet::{CaseImage, Grid, Reader, read};
use hearth_recipe::{Context, Outcome, RecipeError};

/// Distance of two tiles as a share of the patch: of the task `total`, and of others.
const TOTAL_STEP: f64 = 0.8;
const STEP: f64 = 0.5;

/// How far two sizes of voxels may differ and still be the same, in mm.
const SAME: f64 = 1e-3;

/// A class this near to the image's border, in voxels, is taken as cut by it.
const BORDER: usize = 3;

/// Voxels of TotalSegmentator's fast models in mm, whose labels are measured before they are mapped
/// back to the image.
const FAST: f64 = 3.0;

/// Folders of models, `Dataset291_...` and others, below one folder. Each class of each model has
/// its own label: that of TotalSegmentator's task `total` where all names are known there, else
/// 1, 2, ... in the order of the folders.
///
/// The image is turned to RAS and resampled to the models' voxels, where those are cubes, linearly
/// with ends on ends and truncated to whole numbers; labels are mapped back by the nearest voxel.
pub struct TotalSegmentator {
    parts: Vec<Part>,
    names: BTreeMap<u16, String>,
    /// Size of the models' voxels in mm, where the image is resampled to it beforehand.
    cube: Option<f64>,
    /// Whether all classes are those of the task `total`.
    total: bool,
}

/// A model, and the label of each of its own labels: 0 where it is not wanted.
struct Part {
    predictor: NnunetPredictor,
    labels: Vec<u16>,
}

/// What a case gives.
#[derive(Debug)]
pub struct TotalLabels {
    /// Labels in the axes of the image.
    pub labels: Volume<u16>,
    grid: Grid,
    /// In the order of the labels.
    measures: Vec<(String, Measures)>,
    /// Volume of a voxel that is measured, in mm³.
    voxel: f64,
}

/// What is measured of a class.
#[derive(Debug, Default)]
struct Measures {
    voxels: u64,
    /// Sum of the image's values, each truncated to a whole number.
    sum: f64,
    /// Whether it comes within [`BORDER`] voxels of the image's border: a part may lie outside.
    cut: bool,
}

impl TotalLabels {
    /// Writes the labels on the image's grid.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, path: &Path) -> Outcome {
        let wide = self.labels.data.iter().any(|label| *label >= 255);
        self.grid.write(path, &self.labels, wide)
    }

    /// Volume in mm³ and mean intensity of each class by name, as TotalSegmentator's
    /// `statistics.json`: 0 where there is no voxel, and 0 for a class that the image's border may
    /// cut, unless also `incomplete` ones are wanted (its `--stats_include_incomplete`).
    pub fn statistics(&self, incomplete: bool) -> Value {
        let of = |(name, measures): &(String, Measures)| {
            let (volume, intensity) = match measures {
                Measures { voxels: 0, .. } => (0.0, 0.0),
                Measures { cut: true, .. } if !incomplete => (0.0, 0.0),
                Measures { voxels, sum, .. } => (*voxels as f64 * self.voxel, five_digits(sum / *voxels as f64)),
            };
            (name.clone(), json!({"volume": volume, "intensity": intensity}))
        };
        Value::Object(self.measures.iter().map(of).collect::<Map<String, Value>>())
    }

    /// Classes that are there and that the image's border may cut.
    pub fn incomplete(&self) -> impl Iterator<Item = &str> {
        self.measures.iter().filter(|(_, measures)| measures.cut).map(|(name, _)| name.as_str())
    }
}

/// The model folders below a folder, at most three levels deep, in order.
pub(crate) fn models_below(path: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(path) else { return };
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort_unstable();
    for folder in folders {
        if ModelFolder::is_one(&folder) {
            found.push(folder);
        } else if depth > 0 {
            models_below(&folder, depth - 1, found);
        }
    }
}

impl TotalSegmentator {
    /// Whether a folder holds models of nnU-Net in `Dataset...` folders, and is none itself.
    pub fn is_one(path: &Path) -> bool {
        let named = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("Dataset");
        let any = std::fs::read_dir(path).is_ok_and(|entries| entries.flatten().any(named));
        let mut found = Vec::new();
        if any && !ModelFolder::is_one(path) {
            models_below(path, 1, &mut found);
        }
        !found.is_empty()
    }

    /// Opens the models below a folder; of a `subset` of names only those that have one of them.
    /// Without a `step` tiles of the task `total` have TotalSegmentator's distance of 0.8.
    ///
    /// # Errors
    /// Models that cannot be opened, or have different voxels; names that no model has.
    pub fn open(path: &Path, subset: &[String], step: Option<f64>, options: &NnunetOptions) -> Outcome<Self> {
        let mut folders = Vec::new();
        models_below(path, 1, &mut folders);
        let mut classes: Vec<(PathBuf, Vec<(u16, String)>)> = Vec::new();
        for folder in folders {
            let dataset = ModelFolder::open(&folder)?.dataset;
            if dataset.labels.has_regions() || dataset.channel_names.len() != 1 {
                let what = "has regions or several channels, which cannot be merged with others";
                return Err(RecipeError::new(format!("{} {what}", folder.display())));
            }
            let heads = dataset.labels.heads.iter().skip(1);
            let heads = heads.filter_map(|(name, labels)| Some((*labels.first()?, name.clone())));
            classes.push((folder, heads.collect()));
        }
        let all: Vec<&str> = classes.iter().flat_map(|(_, heads)| heads).map(|(_, name)| name.as_str()).collect();
        if let Some(name) = subset.iter().find(|name| !all.contains(&name.as_str())) {
            return Err(RecipeError::new(format!("--roi-subset: {}", unknown("class", name, &all))));
        }
        let numbers = numbers(&all);
        let known = total_classes();
        let total = all.iter().all(|name| known.iter().any(|known| known == name));
        let usual = if total { TOTAL_STEP } else { STEP };
        let wanted = |name: &str| subset.is_empty() || subset.iter().any(|one| one == name);
        let count = classes.iter().filter(|(_, heads)| heads.iter().any(|(_, name)| wanted(name))).count();
        let (step_size, kept) = (step.unwrap_or(usual), options.kept / count.max(1));
        let options = NnunetOptions { step_size, kept, ..options.clone() };
        let (mut parts, mut names, mut cubes) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        for (folder, heads) in &classes {
            if !heads.iter().any(|(_, name)| wanted(name)) {
                continue;
            }
            let most = heads.iter().map(|(label, _)| *label).max().unwrap_or(0);
            let mut labels = vec![0; usize::from(most) + 1];
            for (label, name) in heads.iter().filter(|(_, name)| wanted(name)) {
                labels[usize::from(*label)] = numbers[name.as_str()];
                names.insert(numbers[name.as_str()], name.clone());
            }
            let doing = || format!("the model {}", folder.display());
            let predictor = NnunetPredictor::open(folder, &options).while_doing(doing)?;
            if predictor.configuration.previous_stage.is_some() {
                return Err(RecipeError::new("it is the second stage of a cascade").context(doing()));
            }
            cubes.insert(cube(&predictor.configuration.spacing).map(f64::to_bits));
            parts.push(Part { predictor, labels });
        }
        let cubes: Vec<Option<u64>> = cubes.into_iter().collect();
        match cubes[..] {
            [cube] => Ok(TotalSegmentator { parts, names, cube: cube.map(f64::from_bits), total }),
            [] => Err(RecipeError::new(format!("{} holds no model of nnU-Net", path.display()))),
            _ => {
                let what = "its models have voxels of different sizes: move those of another task away";
                Err(RecipeError::new(format!("{}: {what}", path.display())))
            }
        }
    }

    /// The models that are used.
    pub fn models(&self) -> impl Iterator<Item = &NnunetPredictor> {
        self.parts.iter().map(|part| &part.predictor)
    }

    /// The name of each label.
    pub fn names(&self) -> &BTreeMap<u16, String> {
        &self.names
    }

    /// The labels of an image, a NIfTI file.
    ///
    /// # Errors
    /// Images that cannot be read or predicted.
    pub fn predict(&self, path: &Path) -> Outcome<TotalLabels> {
        let name = path.display().to_string();
        let case = Case { name, files: vec![path.to_owned()] };
        // TotalSegmentator reads the closest canonical axes.
        let CaseImage { volume, spacing, grid } = read(Reader::SimpleItk { reorient: true }, &case)?;
        let shape = volume.shape;
        let (input, voxels) = match self.cube {
            Some(cube) => (resampled(&volume, spacing, [cube; 3])?, [cube; 3]),
            None => (volume.clone(), spacing),
        };
        let mut merged = Volume::<u16>::zeros(1, input.shape);
        for part in &self.parts {
            let found = part.predictor.labels_of(input.clone(), voxels, grid.clone())?;
            for (label, out) in found.data.iter().zip(&mut merged.data) {
                // A later part takes precedence.
                match part.labels.get(usize::from(*label)) {
                    Some(0) | None => {}
                    Some(number) => *out = *number,
                }
            }
        }
        let fast = self.total && self.cube.is_some_and(|cube| (cube - FAST).abs() < SAME);
        let of_input = fast.then(|| (self.measure(&merged, &input), voxels));
        let labels = if merged.shape == shape { merged } else { restored(&merged, shape) };
        let (measures, voxels) = of_input.unwrap_or_else(|| (self.measure(&labels, &volume), spacing));
        Ok(TotalLabels { labels, grid, measures, voxel: voxels.iter().product() })
    }

    fn measure(&self, labels: &Volume<u16>, image: &Volume) -> Vec<(String, Measures)> {
        let mut found: BTreeMap<u16, Measures> = self.names.keys().map(|label| (*label, Measures::default())).collect();
        let [depth, height, width] = labels.shape;
        let near = |at: usize, of: usize| at < BORDER || at + BORDER >= of;
        for (row, (labels, values)) in labels.data.chunks(width.max(1)).zip(image.data.chunks(width.max(1))).enumerate()
        {
            let outer = near(row / height.max(1), depth) || near(row % height.max(1), height);
            for (x, (label, value)) in labels.iter().zip(values).enumerate().filter(|(_, (label, _))| **label > 0) {
                if let Some(measures) = found.get_mut(label) {
                    measures.voxels += 1;
                    measures.sum += f64::from(value.trunc());
                    measures.cut |= outer || near(x, width);
                }
            }
        }
        self.names.iter().filter_map(|(label, name)| Some((name.clone(), found.remove(label)?))).collect()
    }
}

/// Five digits behind the point, ties to even, as numpy's `round`.
fn five_digits(value: f64) -> f64 {
    (value * 1e5).round_ties_even() / 1e5
}

/// The side of voxels that are cubes.
fn cube(spacing: &[f64]) -> Option<f64> {
    match *spacing {
        [z, y, x] if (z - y).abs() < SAME && (y - x).abs() < SAME => Some(z),
        _ => None,
    }
}

/// The label of each class.
fn numbers<'a>(all: &[&'a str]) -> BTreeMap<&'a str, u16> {
    let total = total_classes();
    let known = |name: &str| total.iter().position(|other| other == name);
    if all.iter().all(|name| known(name).is_some()) {
        return all.iter().filter_map(|name| Some((*name, known(name)? as u16 + 1))).collect();
    }
    let mut numbers = BTreeMap::new();
    for name in all {
        let next = numbers.len() as u16 + 1;
        numbers.entry(*name).or_insert(next);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_the_task_total_have_its_labels() {
        let found = numbers(&["heart", "spleen", "rib_left_1"]);
        assert_eq!((found["heart"], found["spleen"], found["rib_left_1"]), (51, 1, 92));
        let found = numbers(&["tumour", "spleen", "tumour"]);
        assert_eq!((found["tumour"], found["spleen"], found.len()), (1, 2, 2));
        assert_eq!((cube(&[1.5, 1.5, 1.5]), cube(&[3.0, 1.0, 1.0]), cube(&[1.0, 1.0])), (Some(1.5), None, None));
    }
}
