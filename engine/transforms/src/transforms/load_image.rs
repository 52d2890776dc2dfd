use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use hearth_image::TransformError;
use hearth_io::Parts;
use hearth_io::readers::{self, ReadOptions, read_parts};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::{Keys, check_key};
use crate::transform::{Transform, describe};
use crate::{Draw, Sample, Value};

/// Reads the file of each key as f32, channel first, with the reader that recognizes it
/// ([`readers`](hearth_io::readers)).
///
/// The last axis of a 4-D file, or the colours of a picture, become the channels, as with MONAI's
/// `LoadImage` followed by `EnsureChannelFirst`. The channels of an image of several files
/// (modalities, frames) are concatenated; files on different grids are an error.
///
/// ```
/// # use hearth_transforms::{Sample, Value, tiny};
/// # use hearth_io::{WriteOptions, write_image};
/// # use hearth_transforms::transforms::LoadImage;
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("line.nii.gz");
/// write_image(&path, &tiny::line([1.0, 2.0]), &WriteOptions::default())?;
/// let sample = Sample::new("case").with("image", Value::Path(path));
/// let made = tiny::run(LoadImage::new("image"), sample)?;
/// assert_eq!(made[0].image("image")?.to_vec(), [1.0, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadImage {
    keys: Keys,
    /// Name of the reader; by default it is chosen by content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reader: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    npz_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    series: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    segments: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    aliases: BTreeMap<String, Vec<String>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    segments_as_channels: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reference_key: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    accept: Vec<String>,
    #[serde(default)]
    level: usize,
    #[serde(default = "yes")]
    reverse_indexing: bool,
    #[serde(default)]
    allow_missing_keys: bool,
    /// Accepted for compatibility with MONAI: an image always has a channel axis.
    #[serde(default, skip_serializing)]
    #[allow(dead_code, reason = "a parameter of MONAI's that changes nothing here")]
    ensure_channel_first: bool,
    /// Accepted for compatibility with MONAI: an image always keeps its metadata.
    #[serde(default, skip_serializing)]
    #[allow(dead_code, reason = "a parameter of MONAI's that changes nothing here")]
    image_only: bool,
}

fn yes() -> bool {
    true
}

impl LoadImage {
    /// Creates the transform for these keys.
    pub fn new(keys: impl Into<Keys>) -> Self {
        LoadImage {
            keys: keys.into(),
            reader: None,
            npz_key: None,
            series: None,
            segments: Vec::new(),
            aliases: BTreeMap::new(),
            segments_as_channels: false,
            reference_key: None,
            accept: Vec::new(),
            level: 0,
            reverse_indexing: true,
            allow_missing_keys: false,
            ensure_channel_first: true,
            image_only: true,
        }
    }

    /// The series of a key if the sample selects it instead of the recipe: the text value
    /// `KEY_series`.
    pub fn series_key(key: &str) -> String {
        format!("{key}_series")
    }

    /// The faults of DICOM series that are accepted for a key in addition to the recipe's, if the sample has
    /// them: names with commas between them in the text value `KEY_accept`.
    pub fn accept_key(key: &str) -> String {
        format!("{key}_accept")
    }

    fn options(&self, sample: &Sample, key: &str) -> Result<ReadOptions, TransformError> {
        let series = match sample.values.get(&Self::series_key(key)) {
            Some(Value::Text(series)) => Some(series.clone()),
            _ => self.series.clone(),
        };
        let mut options = ReadOptions::default();
        options.reader = self.reader.clone();
        options.npz_key = self.npz_key.clone();
        options.series = series;
        options.segments = self.segments.clone();
        options.aliases = self.aliases.clone();
        options.segments_as_channels = self.segments_as_channels;
        options.reference = self.reference(sample)?;
        options.accept = self.accept.clone();
        if let Some(Value::Text(names)) = sample.values.get(&Self::accept_key(key)) {
            options.accept.extend(names.split(',').map(str::to_owned));
        }
        options.level = self.level;
        options.reverse_indexing = self.reverse_indexing;
        Ok(options)
    }

    /// The file or folder of the images that regions were drawn on.
    fn reference(&self, sample: &Sample) -> Result<Option<PathBuf>, TransformError> {
        let Some(key) = &self.reference_key else { return Ok(None) };
        let path = match sample.get(key).map_err(|e| e.at(key))? {
            Value::Path(path) => Some(path.clone()),
            Value::Image(image) => image.meta.path.clone(),
            Value::Stored(image) => image.meta.path.clone(),
            _ => None,
        };
        let unknown = || TransformError::new(format!("the file of `{key}` is not known")).at(key);
        path.map(Some).ok_or_else(|| unknown().expected("loaded DICOM images, or their path"))
    }
}

setters!(LoadImage {
    /// The reader to use, by name (MONAI's names are accepted).
    reader: Option<String>,
    /// Name of the array of an NPZ file.
    npz_key: Option<String>,
    /// DICOM series of a folder with several: its UID, its description or a pattern of it, its
    /// number, or a rule, `most-slices` or `thinnest`; with `#` and a key one of its volumes
    /// (`*t2*#echo2`).
    series: Option<String>,
    /// Segments of a DICOM segmentation or regions of a structure set, by name, description or
    /// pattern (`GTV*`, ignoring case; its regions are combined into one): they become 1, 2, ...
    segments: Vec<String>,
    /// Alternative names of segments, for files that lack one: `GTV-1 = ["GTV_Mass_CT", "GTV*"]`.
    /// The first that exists is used.
    aliases: BTreeMap<String, Vec<String>>,
    /// Whether each segment becomes a channel, so that overlapping segments stay complete.
    segments_as_channels: bool,
    /// Key of the DICOM images that the segments were drawn on: they are read on its grid.
    reference_key: Option<String>,
    /// Faults of a DICOM series that are accepted, such as `MissingSlices`; otherwise it is not
    /// read.
    accept: Vec<String>,
    /// Level of a whole-slide image.
    level: usize,
    /// Whether the first axis of pictures is the width.
    reverse_indexing: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for LoadImage {
    fn name(&self) -> &'static str {
        "LoadImage"
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            let parts = match sample.get(key).map_err(|e| e.at(key))? {
                Value::Path(path) => Parts::new(vec![path.clone()]),
                Value::Parts(parts) => parts.clone(),
                // An image that is already in memory counts as loaded.
                Value::Image(_) => continue,
                other => {
                    return Err(TransformError::new(format!("`{key}` is {}", other.kind())).expected("a path").at(key));
                }
            };
            let options = self.options(&sample, key)?;
            let image = read_parts(&parts, &options).map_err(|e| TransformError::new(e.to_string()).at(key))?;
            sample.values.insert(key.to_owned(), Value::Image(image));
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        if self.keys.is_empty() {
            return Err(Fault::at("keys", "names no value"));
        }
        if let Some(name) = &self.reader {
            readers::by_name(name).map_err(|fault| Fault { path: "reader".to_owned(), ..fault })?;
        }
        readers::accepted(&self.accept).map_err(|what| Fault::at("accept", what))?;
        let known_name = |name: &String| self.segments.iter().any(|segment| segment.eq_ignore_ascii_case(name));
        if let Some(name) = self.aliases.keys().find(|name| !known_name(name)) {
            let there = self.segments.join(", ");
            let what = format!("{name:?} is none of the segments that are read ({there}); add it to `segments`");
            return Err(Fault::at("aliases", what));
        }
        if let Some(key) = &self.reference_key {
            check_key("reference_key", key, known)?;
        }
        known.extend(self.keys.iter().map(str::to_owned));
        Ok(())
    }

    /// Includes the version of a plugin's reader: caches of another version are not used.
    fn describe(&self) -> serde_json::Value {
        let mut about = describe(self.name(), self);
        let reader = self.reader.as_deref().and_then(|name| readers::by_name(name).ok());
        if let Some(version) = reader.and_then(|reader| reader.version()) {
            about["plugin"] = version.into();
        }
        about
    }
}

transform_entry!(LoadImage, r#"keys = ["path"]"#);
