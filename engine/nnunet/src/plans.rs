//! `plans.json`: the decisions of nnU-Net's planner for a data set.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use crate::architecture::Architecture;
use crate::error::{NnunetError, Result};
use crate::json;
use crate::normalize::{Intensities, Scheme};
use crate::resample::Resampling;

/// The largest number of voxels of a patch: 1024 along each axis.
const MAX_PATCH: usize = 1 << 30;

/// The plans of a data set, from any version of nnU-Net v2.
#[derive(Clone, Debug, PartialEq)]
pub struct Plans {
    /// The name of the data set.
    pub dataset_name: String,
    /// The name of the plans: `nnUNetPlans`.
    pub plans_name: String,
    /// The class that reads images and writes labels: `SimpleITKIO`.
    pub image_reader_writer: String,
    /// The image axis of each axis of the network.
    pub transpose_forward: [usize; 3],
    /// The inverse of `transpose_forward`.
    pub transpose_backward: [usize; 3],
    /// Foreground intensities per channel, by channel number.
    pub intensities: BTreeMap<usize, Intensities>,
    /// The configurations as written; [`Plans::configuration`] resolves one.
    configurations: Map<String, Value>,
    /// The whole file, to be written next to results.
    pub raw: Value,
}

/// A configuration, including the values of its parents.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// `3d_fullres`
    pub name: String,
    /// The patch size per axis in voxels; two numbers for a 2-D configuration.
    pub patch_size: Vec<usize>,
    /// The voxel size in mm per axis; two numbers for a 2-D configuration.
    pub spacing: Vec<f64>,
    /// The normalisation of each channel.
    pub normalization_schemes: Vec<Scheme>,
    /// Per channel, whether only voxels inside the image's mask are normalised.
    pub use_mask_for_norm: Vec<bool>,
    /// How images are resampled.
    pub resampling_data: Resampling,
    /// How label maps are resampled.
    pub resampling_seg: Resampling,
    /// How the network's outputs are resampled.
    pub resampling_probabilities: Resampling,
    /// The network.
    pub architecture: Architecture,
    /// The configuration whose labels are an input of this one.
    pub previous_stage: Option<String>,
}

impl Plans {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that is missing, is not JSON, or lacks a key that prediction needs.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(json::read(path)?).map_err(|error| error.of(path))
    }

    /// Parses the JSON of plans.
    ///
    /// # Errors
    /// Keys that are missing or have unusable values.
    pub fn parse(raw: Value) -> Result<Self> {
        let text = |key: &str| raw.get(key).and_then(Value::as_str).map(str::to_owned);
        let axes = |key: &str| -> Result<[usize; 3]> {
            let given: Option<Vec<usize>> = raw.get(key).and_then(|value| serde_json::from_value(value.clone()).ok());
            let given = given.unwrap_or_else(|| vec![0, 1, 2]);
            let mut sorted = given.clone();
            sorted.sort_unstable();
            match (<[usize; 3]>::try_from(given.as_slice()), sorted == [0, 1, 2]) {
                (Ok(axes), true) => Ok(axes),
                _ => Err(NnunetError::key(key, format!("{given:?} is no order of the axes 0, 1 and 2"))),
            }
        };
        let transpose_forward = axes("transpose_forward")?;
        let mut transpose_backward = [0; 3];
        for (to, from) in transpose_forward.iter().enumerate() {
            transpose_backward[*from] = to;
        }
        let properties = ["foreground_intensity_properties_per_channel", "foreground_intensity_properties_by_modality"]
            .into_iter()
            .find_map(|key| raw.get(key)?.as_object());
        let mut intensities = BTreeMap::new();
        for (channel, values) in properties.into_iter().flatten() {
            if let Ok(channel) = channel.parse() {
                intensities.insert(channel, Intensities::parse(values));
            }
        }
        let Some(configurations) = raw.get("configurations").and_then(Value::as_object).cloned() else {
            return Err(NnunetError::key("configurations", "is missing; expected plans of nnU-Net v2"));
        };
        Ok(Plans {
            dataset_name: text("dataset_name").unwrap_or_default(),
            plans_name: text("plans_name").unwrap_or_default(),
            image_reader_writer: text("image_reader_writer").unwrap_or_else(|| "SimpleITKIO".to_owned()),
            transpose_forward,
            transpose_backward,
            intensities,
            configurations,
            raw,
        })
    }

    /// The names of all configurations, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.configurations.keys().map(String::as_str)
    }

    /// A configuration, with its inherited values.
    ///
    /// # Errors
    /// An unknown configuration, a circle of parents, and keys that are missing or have unusable
    /// values.
    pub fn configuration(&self, name: &str) -> Result<Configuration> {
        let keys = self.inherited(name, &mut Vec::new())?;
        Configuration::parse(name, &keys).map_err(|error| match error {
            NnunetError::Key { key, what } => NnunetError::key(format!("configurations.{name}.{key}"), what),
            other => other,
        })
    }

    /// A key of a configuration as written, or its value in a parent.
    pub fn value(&self, configuration: &str, key: &str) -> Option<&Value> {
        let mut name = configuration;
        // `configuration` reports a circle of parents.
        for _ in 0..=self.configurations.len() {
            let keys = self.configurations.get(name)?;
            match keys.get(key) {
                Some(value) => return Some(value),
                None => name = keys.get("inherits_from")?.as_str()?,
            }
        }
        None
    }

    fn inherited(&self, name: &str, children: &mut Vec<String>) -> Result<Map<String, Value>> {
        let known = || self.names().collect::<Vec<_>>().join(", ");
        let Some(own) = self.configurations.get(name).and_then(Value::as_object) else {
            let what = format!("there is no configuration {name:?}; the plans have {}", known());
            return Err(NnunetError::key("configurations", what));
        };
        children.push(name.to_owned());
        let Some(parent) = own.get("inherits_from").and_then(Value::as_str) else { return Ok(own.clone()) };
        if children.iter().any(|child| child == parent) {
            let what = format!("{} inherits from itself by {}", children[0], children.join(" and "));
            return Err(NnunetError::key("configurations", what));
        }
        let mut all = self.inherited(parent, children)?;
        all.extend(own.iter().map(|(key, value)| (key.clone(), value.clone())));
        Ok(all)
    }
}

impl Configuration {
    fn parse(name: &str, keys: &Map<String, Value>) -> Result<Self> {
        let patch_size: Vec<usize> = required(keys, "patch_size", "two or three whole numbers")?;
        let spacing: Vec<f64> = required(keys, "spacing", "a size in mm per axis")?;
        let dims = patch_size.len();
        if !(2..=3).contains(&dims) || patch_size.contains(&0) {
            return Err(NnunetError::key(
                "patch_size",
                format!("{patch_size:?}: expected two or three numbers above 0"),
            ));
        }
        let voxels = patch_size.iter().try_fold(1_usize, |n, length| n.checked_mul(*length));
        if voxels.is_none_or(|voxels| voxels > MAX_PATCH) {
            let what = format!("{patch_size:?} has more voxels than the limit of {MAX_PATCH}");
            return Err(NnunetError::key("patch_size", what));
        }
        if spacing.len() != dims || spacing.iter().any(|s| !s.is_finite() || *s <= 0.0) {
            return Err(NnunetError::key("spacing", format!("{spacing:?}: expected {dims} sizes above 0")));
        }
        let names: Vec<String> = required(keys, "normalization_schemes", "a name per channel")?;
        let schemes = names.iter().map(|name| Scheme::named(name)).collect::<Result<Vec<_>>>()?;
        let masks: Vec<bool> = required(keys, "use_mask_for_norm", "true or false per channel")?;
        if masks.len() != schemes.len() {
            let what = format!("{} for {} channels", masks.len(), schemes.len());
            return Err(NnunetError::key("use_mask_for_norm", what));
        }
        let resampling = |key: &str, order: u8, is_seg: bool| Resampling::parse(keys, key, order, is_seg);
        Ok(Configuration {
            name: name.to_owned(),
            resampling_data: resampling("resampling_fn_data", 3, false)?,
            resampling_seg: resampling("resampling_fn_seg", 1, true)?,
            resampling_probabilities: resampling("resampling_fn_probabilities", 1, false)?,
            architecture: Architecture::parse(keys, dims)?,
            previous_stage: keys.get("previous_stage").and_then(Value::as_str).map(str::to_owned),
            patch_size,
            spacing,
            normalization_schemes: schemes,
            use_mask_for_norm: masks,
        })
    }

    /// The voxel size to which an image with this spacing (transposed) is resampled; a 2-D
    /// configuration keeps the first axis.
    pub fn target_spacing(&self, image: [f64; 3]) -> [f64; 3] {
        target_spacing(&self.spacing, image)
    }

    /// The patch as three axes; the first axis of a 2-D configuration is 1.
    pub fn patch(&self) -> [usize; 3] {
        match self.patch_size[..] {
            [z, y, x] => [z, y, x],
            [y, x] => [1, y, x],
            _ => [1; 3],
        }
    }

    /// The number of axes: 2 or 3.
    pub fn dims(&self) -> usize {
        self.patch_size.len()
    }
}

/// The target voxel size of an image with this spacing; two numbers keep its first axis.
pub(crate) fn target_spacing(spacing: &[f64], image: [f64; 3]) -> [f64; 3] {
    match *spacing {
        [y, x] => [image[0], y, x],
        [z, y, x] => [z, y, x],
        _ => image,
    }
}

/// Reads a required key with this type.
pub(crate) fn required<T: serde::de::DeserializeOwned>(
    keys: &Map<String, Value>,
    key: &str,
    expected: &str,
) -> Result<T> {
    let Some(value) = keys.get(key) else {
        return Err(NnunetError::key(key, format!("is missing; expected {expected}")));
    };
    serde_json::from_value(value.clone()).map_err(|_| NnunetError::key(key, format!("is {value}; expected {expected}")))
}
