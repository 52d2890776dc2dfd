use std::collections::BTreeSet;

use hearth_image::{OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crop_centers::{WarnOnce, check_samples, crop_size, cut, foreground_ratio, same_shape, start_around};
use super::foreground_and_background;
use crate::params::{Keys, check_key};
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample, Value};

/// Crops `num_samples` boxes of `spatial_size` voxels. Each is centred on a foreground voxel with
/// probability `pos / (pos + neg)`, otherwise on a background voxel, and moved so that it lies
/// within the image.
///
/// The lists of voxels come from `fg_indices_key` and `bg_indices_key`, or are computed from
/// `label_key` (and `image_key`, `image_threshold`) each time. In a case without foreground all
/// crops are from the background, with one warning that names its file. With `allow_smaller` a box
/// that is larger than the image is reduced to it.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandCropByPosNegLabel};
/// let step = RandCropByPosNegLabel::new("image", "image", [1, 1, 1]).neg(0.0);
/// assert_eq!(tiny::apply(step, tiny::line([0.0, 0.0, 1.0, 0.0]))?.to_vec(), [1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandCropByPosNegLabel {
    keys: Keys,
    /// Key of the label map whose foreground crops are centred in.
    label_key: String,
    spatial_size: OneOrMany<i64>,
    #[serde(default = "unit")]
    pos: f64,
    #[serde(default = "unit")]
    neg: f64,
    #[serde(default = "one")]
    num_samples: usize,
    #[serde(default)]
    image_key: Option<String>,
    #[serde(default)]
    image_threshold: f64,
    #[serde(default)]
    fg_indices_key: Option<String>,
    #[serde(default)]
    bg_indices_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ignore_index: Option<i64>,
    #[serde(default)]
    allow_smaller: bool,
    #[serde(default)]
    allow_missing_keys: bool,
    #[serde(skip)]
    warned: WarnOnce,
}

fn unit() -> f64 {
    1.0
}

fn one() -> usize {
    1
}

impl RandCropByPosNegLabel {
    /// Creates the transform: one crop per case, with equal weights of foreground and background.
    pub fn new(keys: impl Into<Keys>, label_key: &str, spatial_size: impl Into<OneOrMany<i64>>) -> Self {
        RandCropByPosNegLabel {
            keys: keys.into(),
            label_key: label_key.to_owned(),
            spatial_size: spatial_size.into(),
            pos: 1.0,
            neg: 1.0,
            num_samples: 1,
            image_key: None,
            image_threshold: 0.0,
            fg_indices_key: None,
            bg_indices_key: None,
            ignore_index: None,
            allow_smaller: false,
            allow_missing_keys: false,
            warned: WarnOnce::default(),
        }
    }

    /// Returns the size of the box for an image of this shape.
    ///
    /// # Errors
    /// If it is larger than the image and may not be reduced.
    pub fn box_size(&self, shape: [usize; 3], spatial_dims: usize) -> Result<[usize; 3], TransformError> {
        crop_size(&self.spatial_size, shape, spatial_dims, self.allow_smaller)
    }
}

setters!(RandCropByPosNegLabel {
    /// Weight of foreground centres.
    pos: f64,
    /// Weight of background centres.
    neg: f64,
    /// Number of crops per case.
    num_samples: usize,
    /// Key of the image that defines the background.
    image_key: Option<String>,
    /// Threshold of that image: background voxels have values above it.
    image_threshold: f64,
    /// Key of the foreground list.
    fg_indices_key: Option<String>,
    /// Key of the background list.
    bg_indices_key: Option<String>,
    /// Label of voxels without annotation: they are neither foreground nor background.
    ignore_index: Option<i64>,
    /// Whether to shrink the box to the image.
    allow_smaller: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandCropByPosNegLabel {
    fn name(&self) -> &'static str {
        "RandCropByPosNegLabel"
    }

    fn is_random(&self) -> bool {
        true
    }

    fn is_lazy(&self) -> bool {
        true
    }

    /// Without lists the label's values are read.
    fn requires_current_data(&self) -> bool {
        self.fg_indices_key.is_none()
    }

    /// With given lists, only the values of the boxes are read.
    fn reads_boxes(&self, key: &str) -> bool {
        let looked_at = key == self.label_key || self.image_key.as_deref() == Some(key);
        self.fg_indices_key.is_some() || !looked_at
    }

    fn effect(&self) -> Effect {
        Effect::sizing("spatial_size", self.spatial_size.as_slice())
    }

    fn through_host(&self) -> bool {
        self.fg_indices_key.is_none() || self.bg_indices_key.is_none()
    }

    fn apply(&self, mut sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        let mut taken = |key: &Option<String>| match key {
            Some(key) => {
                let list = sample.index_list(key).map_err(|e| e.at(key))?;
                sample.values.remove(key);
                Ok(Some(list))
            }
            None => Ok::<_, TransformError>(None),
        };
        let lists = (taken(&self.fg_indices_key)?, taken(&self.bg_indices_key)?);
        let shape = sample.shape(&self.label_key).map_err(|e| e.at(&self.label_key))?;
        let spatial_dims = sample.meta(&self.label_key).map_err(|e| e.at(&self.label_key))?.spatial_dims;
        let (foreground, background) = match lists {
            (Some(foreground), Some(background)) => (foreground, background),
            _ => {
                let label = sample.image(&self.label_key).map_err(|e| e.at(&self.label_key))?;
                let image = match &self.image_key {
                    Some(key) => Some(sample.image(key).map_err(|e| e.at(key))?),
                    None => None,
                };
                let (fg, bg) = foreground_and_background(label, image, self.image_threshold, self.ignore_index)
                    .map_err(|e| e.at(&self.label_key))?;
                (fg.into(), bg.into())
            }
        };
        let size = self.box_size(shape, spatial_dims).map_err(|e| e.at(&self.label_key))?;
        let ratio = foreground_ratio(self.pos, self.neg, foreground.len(), background.len())
            .map_err(|e| e.at(&self.label_key))?;
        if foreground.is_empty() && self.pos > 0.0 {
            let what = || format!("no foreground in `{}`: crops come from the background", self.label_key);
            self.warned.warn(&sample, &self.label_key, what);
        }
        let keys = self.keys.of(&sample, self.allow_missing_keys);
        same_shape(&sample, &keys, shape, &self.label_key)?;
        let mut boxes = Vec::with_capacity(self.num_samples);
        for _ in 0..self.num_samples {
            let list = if draw.happens(ratio) { &foreground } else { &background };
            let flat = list.get(draw.below(list.len() as u64) as usize)?;
            let start = start_around(flat, shape, size).map_err(|e| e.at(&self.label_key))?;
            boxes.push((start, std::array::from_fn(|a| start[a] + size[a])));
        }
        cut(sample, &keys, &boxes)
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_key("label_key", &self.label_key, known)?;
        for (name, key) in [
            ("image_key", &self.image_key),
            ("fg_indices_key", &self.fg_indices_key),
            ("bg_indices_key", &self.bg_indices_key),
        ] {
            if let Some(key) = key {
                check_key(name, key, known)?;
            }
        }
        if self.fg_indices_key.is_some() != self.bg_indices_key.is_some() {
            return Err(Fault::at("fg_indices_key", "and bg_indices_key belong together: give both or none"));
        }
        if !(self.pos >= 0.0 && self.neg >= 0.0 && self.pos + self.neg > 0.0 && (self.pos + self.neg).is_finite()) {
            return Err(Fault::at("pos", "and neg must not be negative, nor both 0"));
        }
        check_samples(self.num_samples)?;
        for key in [&self.fg_indices_key, &self.bg_indices_key].into_iter().flatten() {
            known.remove(key);
        }
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

// The lists of a case may also be added to the sample directly.
impl From<Vec<u64>> for Value {
    fn from(indices: Vec<u64>) -> Self {
        Value::Indices(indices.into())
    }
}

transform_entry!(
    RandCropByPosNegLabel,
    r#"keys = ["image", "label"]
label_key = "label"
spatial_size = [8, 8, 8]
pos = 1.0
neg = 1.0
num_samples = 4"#
);
