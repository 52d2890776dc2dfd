use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hearth_image::{Image, OneOrMany, TransformError, affine, host_device};
use hearth_io::readers::slide_region;
use hearth_registry::Fault;
use hearth_slides::{RESOLUTION_TOLERANCE, Resolution, Slide};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample, Value};

/// Reads a region of each key's slide, around a row and column (level 0) given by another value:
/// `[3, H, W, 1]`, 0 to 255. Only the tiles that the region touches are decoded; the area beyond
/// the slide's edges is white.
///
/// The labels of the region, if there are any, become an image of `label_grid` values, row by row,
/// so that a following `GridSplit` splits region and labels in the same way. The top left corner is
/// half of the size left of and above the centre, in pixels of the level that is read; at level 0
/// this is MONAI's `PatchWSIDataset`.
///
/// ```
/// # use hearth_slides::{PyramidOptions, pyramid};
/// # use hearth_transforms::{Sample, Value, tiny, transforms::LoadRegion};
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("slide.tif");
/// std::fs::write(&path, pyramid(&[90; 64 * 64 * 3], 64, 64, &PyramidOptions::default())?)?;
/// let sample = Sample::new("case").with("image", Value::Path(path));
/// let sample = sample.with("location", Value::Numbers([10.0, 20.0].into()));
/// let made = tiny::run(LoadRegion::new("image", 16_usize), sample)?;
/// assert_eq!(made[0].image("image")?.shape(), [16, 16, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadRegion {
    keys: Keys,
    size: OneOrMany<usize>,
    #[serde(default)]
    level: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mpp: Option<f64>,
    #[serde(default = "location")]
    location_key: String,
    #[serde(default = "label")]
    label_key: String,
    #[serde(default = "one")]
    label_grid: OneOrMany<usize>,
    #[serde(default)]
    allow_missing_keys: bool,
    #[serde(skip)]
    #[schemars(skip)]
    open: Open,
}

/// Open slides: opening a slide reads all of its directories.
#[derive(Clone, Debug, Default)]
struct Open(Arc<Mutex<HashMap<PathBuf, Slide>>>);

impl Open {
    /// The maximum number of open slides: each holds an open file.
    const MOST: usize = 128;

    fn slide(&self, path: &Path) -> Result<Slide, TransformError> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slide) = lock().get(path) {
            return Ok(slide.clone());
        }
        let slide = Slide::open(path).map_err(|error| TransformError::new(error.to_string()))?;
        let mut slides = lock();
        if slides.len() >= Self::MOST {
            slides.clear();
        }
        slides.insert(path.to_owned(), slide.clone());
        Ok(slide)
    }
}

fn location() -> String {
    "location".to_owned()
}

fn label() -> String {
    "label".to_owned()
}

fn one() -> OneOrMany<usize> {
    OneOrMany::One(1)
}

impl LoadRegion {
    /// Creates the transform: regions of this height and width at level 0.
    pub fn new(keys: impl Into<Keys>, size: impl Into<OneOrMany<usize>>) -> Self {
        LoadRegion {
            keys: keys.into(),
            size: size.into(),
            level: 0,
            mpp: None,
            location_key: location(),
            label_key: label(),
            label_grid: one(),
            allow_missing_keys: false,
            open: Open::default(),
        }
    }

    /// Resolves one or two numbers; a single one counts for both.
    fn pair(values: &OneOrMany<usize>) -> Option<[usize; 2]> {
        match values.as_slice() {
            [one] => Some([*one; 2]),
            [rows, columns] => Some([*rows, *columns]),
            _ => None,
        }
    }

    fn read(&self, path: &Path, [row, column]: [f64; 2]) -> Result<Image, TransformError> {
        let fail = |error: hearth_slides::SlideError| TransformError::new(error.to_string());
        let slide = self.open.slide(path)?;
        let resolution = self.mpp.map_or(Resolution::Level(self.level), Resolution::Mpp);
        let level = slide.level_for(resolution, RESOLUTION_TOLERANCE).map_err(fail)?;
        let [height, width] = Self::pair(&self.size).unwrap_or([1; 2]);
        let downsample = slide.levels()[level].downsample;
        let corner = |centre: f64, size: usize| centre as i64 - ((size / 2) as f64 * downsample).round() as i64;
        let region = slide.read_region_at((corner(column, width), corner(row, height)), level, (width, height));
        let mut image = slide_region(&region.map_err(fail)?);
        image.meta.path = Some(path.to_owned());
        Ok(image)
    }

    /// Converts the labels of a region to an image.
    fn labels(&self, values: &[f64]) -> Result<Image, TransformError> {
        let [rows, columns] = Self::pair(&self.label_grid).unwrap_or([1; 2]);
        if values.len() != rows * columns {
            return Err(TransformError::new(format!("{} labels for a region", values.len()))
                .expected(format!("{rows} x {columns} (`label_grid`)")));
        }
        let values = values.iter().map(|value| *value as f32).collect();
        Ok(Image::from_values(values, [1, rows, columns, 1], affine::IDENTITY, &host_device()).with_spatial_dims(2))
    }
}

setters!(LoadRegion {
    /// Height and width of a region, in pixels of the level.
    size: OneOrMany<usize>,
    /// Level that is read.
    level: usize,
    /// Micrometres per pixel (within 5 %), which select the level in place of `level`.
    mpp: Option<f64>,
    /// Key of the row and column of the region's centre, in pixels of level 0.
    location_key: String,
    /// Key of the labels of the region.
    label_key: String,
    /// Number of rows and columns of labels.
    label_grid: OneOrMany<usize>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for LoadRegion {
    fn name(&self) -> &'static str {
        "LoadRegion"
    }

    fn effect(&self) -> Effect {
        Effect::Regrids
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            let path = match sample.get(key).map_err(|e| e.at(key))? {
                Value::Path(path) => path.clone(),
                // A region that is already in memory counts as loaded.
                Value::Image(_) => continue,
                other => {
                    return Err(TransformError::new(format!("`{key}` is {}", other.kind())).expected("a path").at(key));
                }
            };
            let centre = match sample.get(&self.location_key)? {
                Value::Numbers(numbers) if numbers.len() == 2 => [numbers[0], numbers[1]],
                other => {
                    return Err(TransformError::new(format!("`{}` is {}", self.location_key, other.kind()))
                        .expected("row and column of the region's centre")
                        .at(&self.location_key));
                }
            };
            let image = self.read(&path, centre).map_err(|e| e.at(key))?;
            sample.values.insert(key.to_owned(), Value::Image(image));
        }
        let labels = match sample.values.get(&self.label_key) {
            Some(Value::Numbers(numbers)) => Some(self.labels(numbers)),
            Some(Value::Number(number)) => Some(self.labels(&[*number])),
            _ => None,
        };
        if let Some(labels) = labels {
            sample.values.insert(self.label_key.clone(), Value::Image(labels.map_err(|e| e.at(&self.label_key))?));
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        if self.keys.is_empty() {
            return Err(Fault::at("keys", "names no value"));
        }
        for (name, values) in [("size", &self.size), ("label_grid", &self.label_grid)] {
            if Self::pair(values).is_none_or(|pair| pair.contains(&0)) {
                return Err(Fault::at(name, "must be one number or two (height and width), at least 1"));
            }
        }
        if let Some(mpp) = self.mpp.filter(|mpp| !(mpp.is_finite() && *mpp > 0.0)) {
            return Err(Fault::at("mpp", format!("{mpp}; expected micrometres per pixel, above 0")));
        }
        known.extend(self.keys.iter().map(str::to_owned));
        known.insert(self.label_key.clone());
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    LoadRegion,
    r#"keys = ["slide"]
size = [32, 32]
location_key = "location""#
);
