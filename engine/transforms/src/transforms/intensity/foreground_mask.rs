use std::collections::{BTreeMap, BTreeSet};

use burn::tensor::{Tensor, TensorData};
use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::color::hsv;
use super::histogram::otsu;
use super::ranges::check_finite;
use super::statistics::moments;
use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Sample, Value};

/// Creates a mask of one channel: 1 where a colour channel is not above its threshold (tissue on a
/// bright slide) and, if `hsv_threshold` is given, a channel of the HSV image is above its
/// threshold.
///
/// `threshold` and `hsv_threshold` are a number, `"otsu"`, `"mean"`, or a table of these by channel
/// (`R`, `G`, `B`; `H`, `S`, `V`). A threshold of 0 skips its channel, as in MONAI. With `invert`
/// the mask is computed from `1 - x`. With `new_key_prefix` the mask is a new value and the image
/// is kept. Runs on the CPU.
///
/// ```
/// # use hearth_transforms::tiny;
/// # use hearth_transforms::transforms::{ForegroundMask, Thresholds};
/// // A white pixel and one of tissue; each colour by itself.
/// let slide = tiny::image([3, 2, 1, 1], [1.0, 0.2, 1.0, 0.2, 1.0, 0.2]).with_spatial_dims(2);
/// let mask = tiny::apply(ForegroundMask::new("image").threshold(Thresholds::from(0.5)), slide)?;
/// assert_eq!(mask.to_vec(), [0.0, 1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForegroundMask {
    keys: Keys,
    #[serde(default = "by_otsu")]
    threshold: Option<Thresholds>,
    #[serde(default)]
    hsv_threshold: Option<Thresholds>,
    #[serde(default)]
    invert: bool,
    #[serde(default)]
    new_key_prefix: Option<String>,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// A threshold for every channel, or for some by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a threshold, or a table with one for each channel")]
pub enum Thresholds {
    /// One threshold for every channel.
    All(Threshold),
    /// Thresholds by channel name.
    Each(BTreeMap<String, Threshold>),
}

/// A threshold, or how it is computed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a number, or the name of a method")]
pub enum Threshold {
    /// A fixed number.
    Number(f64),
    /// A threshold computed for each image.
    Found(ThresholdMethod),
}

/// A method that computes a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ThresholdMethod {
    /// Otsu's method, over 256 bins.
    Otsu,
    /// The mean of the values.
    Mean,
}

impl From<f64> for Thresholds {
    fn from(number: f64) -> Self {
        Thresholds::All(Threshold::Number(number))
    }
}

impl From<ThresholdMethod> for Thresholds {
    fn from(method: ThresholdMethod) -> Self {
        Thresholds::All(Threshold::Found(method))
    }
}

fn by_otsu() -> Option<Thresholds> {
    Some(ThresholdMethod::Otsu.into())
}

impl Thresholds {
    fn of(&self, name: char) -> Option<Threshold> {
        match self {
            Thresholds::All(threshold) => Some(*threshold),
            Thresholds::Each(by_name) => {
                by_name.iter().find(|(key, _)| key.eq_ignore_ascii_case(name.encode_utf8(&mut [0; 4]))).map(|(_, t)| *t)
            }
        }
    }

    fn check(&self, parameter: &str, names: &str) -> Result<(), Fault> {
        let check = |threshold: &Threshold| match threshold {
            Threshold::Number(number) => check_finite(parameter, *number),
            Threshold::Found(_) => Ok(()),
        };
        match self {
            Thresholds::All(threshold) => check(threshold),
            Thresholds::Each(by_name) => by_name.iter().try_for_each(|(name, threshold)| {
                if name.len() == 1 && names.contains(&name.to_uppercase()) {
                    check(threshold)
                } else {
                    Err(Fault::at(parameter, format!("there is no channel `{name}`; there are {names}")))
                }
            }),
        }
    }
}

impl Threshold {
    /// `None` skips the channel.
    fn find(self, values: &[f32]) -> Result<Option<f32>, TransformError> {
        let found = match self {
            Threshold::Number(number) => number as f32,
            Threshold::Found(ThresholdMethod::Mean) => moments(values, false).mean as f32,
            Threshold::Found(ThresholdMethod::Otsu) => otsu(values).ok_or_else(|| {
                TransformError::new("no threshold can be computed: a value is not finite, or there is none")
            })?,
        };
        Ok(Some(found).filter(|t| *t != 0.0))
    }
}

impl ForegroundMask {
    /// Creates the transform with Otsu's thresholds of the colour channels.
    pub fn new(keys: impl Into<Keys>) -> Self {
        ForegroundMask {
            keys: keys.into(),
            threshold: by_otsu(),
            hsv_threshold: None,
            invert: false,
            new_key_prefix: None,
            allow_missing_keys: false,
        }
    }

    /// Computes the mask of one image, of one channel.
    ///
    /// # Errors
    /// If a threshold cannot be computed, or the image does not have three channels for
    /// `hsv_threshold`.
    pub fn mask(&self, mut image: Image) -> Result<Image, TransformError> {
        let [channels, x, y, z] = image.data.dims();
        let size = x * y * z;
        if self.hsv_threshold.is_some() && channels != 3 {
            return Err(TransformError::new(format!("hsv_threshold of an image of {channels} channels"))
                .expected("3: red, green, blue"));
        }
        let mask = image.with_values(|values| {
            let values: Vec<f32> = values.iter().map(|v| if self.invert { 1.0 - v } else { *v }).collect();
            let mut mask = vec![true; size];
            if let Some(thresholds) = &self.threshold {
                restrict(&mut mask, &values, thresholds, "RGB", |v, t| v <= t)?;
            }
            if let Some(thresholds) = &self.hsv_threshold {
                restrict(&mut mask, &hsv(&values), thresholds, "HSV", |v, t| v > t)?;
            }
            Ok::<_, TransformError>(mask)
        })?;
        let mask: Vec<f32> = mask.into_iter().map(f32::from).collect();
        image.data = Tensor::from_data(TensorData::new(mask, [1, x, y, z]), &image.data.device());
        Ok(image)
    }
}

/// Restricts the mask to voxels that any channel selects.
fn restrict(
    mask: &mut [bool],
    values: &[f32],
    thresholds: &Thresholds,
    names: &str,
    belongs: fn(f32, f32) -> bool,
) -> Result<(), TransformError> {
    let mut any = vec![false; mask.len()];
    for (values, name) in values.chunks(mask.len().max(1)).zip(names.chars()) {
        let Some(threshold) = thresholds.of(name) else { continue };
        let Some(threshold) = threshold.find(values)? else { continue };
        any.iter_mut().zip(values).for_each(|(any, v)| *any |= belongs(*v, threshold));
    }
    mask.iter_mut().zip(any).for_each(|(mask, any)| *mask &= any);
    Ok(())
}

setters!(ForegroundMask {
    /// Thresholds of the colour channels; foreground is not above them.
    threshold: Option<Thresholds>,
    /// Thresholds of hue, saturation and value; foreground is above them.
    hsv_threshold: Option<Thresholds>,
    /// Whether to use `1 - x`.
    invert: bool,
    /// Prefix of a new key to which the mask is written.
    new_key_prefix: Option<String>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

/// Replaces the images, or writes the results to new keys.
pub(super) fn to_new_keys(
    mut sample: Sample,
    keys: Vec<(usize, &str)>,
    prefix: Option<&str>,
    change: impl Fn(Image) -> Result<Image, TransformError>,
) -> Result<Vec<Sample>, TransformError> {
    for (_, key) in keys {
        match prefix {
            None => sample.update(key, &change)?,
            Some(prefix) => {
                let made = sample.image(key).cloned().and_then(&change).map_err(|e| e.at(key))?;
                sample.values.insert(format!("{prefix}{key}"), Value::Image(made));
            }
        }
    }
    Ok(vec![sample])
}

/// Adds the keys that [`to_new_keys`] creates.
pub(super) fn note_new_keys(keys: &Keys, prefix: Option<&str>, known: &mut BTreeSet<String>) {
    if let Some(prefix) = prefix {
        known.extend(keys.iter().map(|key| format!("{prefix}{key}")));
    }
}

impl Transform for ForegroundMask {
    fn name(&self) -> &'static str {
        "ForegroundMask"
    }

    fn through_host(&self) -> bool {
        true
    }

    fn apply(&self, sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let keys = self.keys.of(&sample, self.allow_missing_keys);
        to_new_keys(sample, keys, self.new_key_prefix.as_deref(), |image| self.mask(image))
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        if self.threshold.is_none() && self.hsv_threshold.is_none() {
            return Err(Fault::at("threshold", "or `hsv_threshold` must be given"));
        }
        self.threshold.as_ref().map_or(Ok(()), |t| t.check("threshold", "RGB"))?;
        self.hsv_threshold.as_ref().map_or(Ok(()), |t| t.check("hsv_threshold", "HSV"))?;
        note_new_keys(&self.keys, self.new_key_prefix.as_deref(), known);
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    ForegroundMask,
    r#"keys = ["rgb"]
threshold = "otsu""#
);
