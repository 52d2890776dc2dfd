use std::collections::BTreeSet;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::foreground_and_background;
use crate::params::{Keys, OneOrMany, check_key, resolve_size};
use crate::transform::{Transform, describe};
use crate::{CheckError, Draw, Sample, TransformError, Value};

/// Cuts `num_samples` boxes of `spatial_size` voxels, each centred on a foreground voxel with probability `pos / (pos + neg)`, else on a
/// background voxel, moved so that it lies within the image.
///
/// The lists come from `fg_indices_key` and `bg_indices_key`, or are made from `label_key` (and `image_key`, `image_threshold`) each
/// time. A case without foreground gives background only, with one warning that names its file. `allow_smaller` cuts a box that is
/// larger than the image down to it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandCropByPosNegLabel {
    keys: Keys,
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
    #[serde(default)]
    allow_smaller: bool,
    #[serde(default)]
    allow_missing_keys: bool,
    /// Cases that were warned about.
    #[serde(skip)]
    warned: Mutex<BTreeSet<String>>,
}

fn unit() -> f64 {
    1.0
}

fn one() -> usize {
    1
}

/// The probability of a foreground centre: as asked, or forced where one list is empty.
///
/// # Errors
/// Where both lists are empty.
pub fn foreground_ratio(pos: f64, neg: f64, foreground: usize, background: usize) -> Result<f64, TransformError> {
    match (foreground, background) {
        (0, 0) => Err(TransformError::new("there is no voxel to centre a crop on: no foreground and no background")
            .advice("lower image_threshold, or look at the label")),
        (0, _) => Ok(0.0),
        (_, 0) => Ok(1.0),
        _ => Ok(pos / (pos + neg)),
    }
}

/// The nearest centre along one axis that keeps a crop of `size` within `n` voxels.
pub fn corrected_center(center: usize, size: usize, n: usize) -> usize {
    let low = size / 2;
    // floor(n + 1 - size / 2)
    let mut high = (2 * (n + 1)).saturating_sub(size) / 2;
    if high == low {
        high += 1;
    }
    center.max(low).min(high.saturating_sub(1))
}

impl RandCropByPosNegLabel {
    /// One crop per case, foreground and background alike.
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
            allow_smaller: false,
            allow_missing_keys: false,
            warned: Mutex::default(),
        }
    }

    /// The size of the box for an image of this shape.
    ///
    /// # Errors
    /// Where it is larger than the image and may not be smaller.
    pub fn box_size(&self, shape: [usize; 3], spatial_dims: usize) -> Result<[usize; 3], TransformError> {
        let size = resolve_size(&self.spatial_size, shape, spatial_dims)?;
        if self.allow_smaller {
            return Ok(std::array::from_fn(|a| size[a].min(shape[a])));
        }
        if (0..3).any(|a| size[a] > shape[a]) {
            return Err(TransformError::new(format!("the image is smaller than the crop of {size:?} voxels"))
                .expected(format!("at least {size:?} voxels, there are {shape:?}"))
                .advice("put SpatialPad before this step, or set allow_smaller"));
        }
        Ok(size)
    }

    fn warn_once(&self, sample: &Sample) {
        let mut warned = self.warned.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if warned.insert(sample.case.clone()) {
            let path = sample.meta(&self.label_key).ok().and_then(|meta| meta.path.clone());
            let file = path.map_or_else(|| "not from a file".to_owned(), |p| p.display().to_string());
            tracing::warn!(case = %sample.case, file, "no foreground in `{}`: crops come from the background", self.label_key);
        }
    }
}

setters!(RandCropByPosNegLabel {
    /// Weight of foreground centres.
    pos: f64,
    /// Weight of background centres.
    neg: f64,
    /// Crops per case.
    num_samples: usize,
    /// The image that decides the background.
    image_key: Option<String>,
    /// Background is above this in the image.
    image_threshold: f64,
    /// Key of the foreground list.
    fg_indices_key: Option<String>,
    /// Key of the background list.
    bg_indices_key: Option<String>,
    /// Cut the box down to the image.
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

    /// With lists given, no value but those of the boxes is looked at.
    fn reads_boxes(&self, key: &str) -> bool {
        let looked_at = key == self.label_key || self.image_key.as_deref() == Some(key);
        self.fg_indices_key.is_some() || !looked_at
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
                let (fg, bg) =
                    foreground_and_background(label, image, self.image_threshold).map_err(|e| e.at(&self.label_key))?;
                (fg.into(), bg.into())
            }
        };
        let size = self.box_size(shape, spatial_dims).map_err(|e| e.at(&self.label_key))?;
        let ratio = foreground_ratio(self.pos, self.neg, foreground.len(), background.len())
            .map_err(|e| e.at(&self.label_key))?;
        if foreground.is_empty() && self.pos > 0.0 {
            self.warn_once(&sample);
        }
        let keys = self.keys.of(&sample, self.allow_missing_keys);
        for (_, key) in &keys {
            let other = sample.shape(key).map_err(|e| e.at(key))?;
            if other != shape {
                return Err(TransformError::new(format!("`{key}` has {other:?} voxels"))
                    .expected(format!("{shape:?}, as `{}` has", self.label_key))
                    .at(key));
            }
        }
        let mut out = Vec::with_capacity(self.num_samples);
        for _ in 0..self.num_samples {
            let list = if draw.happens(ratio) { &foreground } else { &background };
            let flat = list.get(draw.below(list.len() as u64) as usize)? as usize;
            let [_, ny, nz] = shape;
            let center = [flat / (ny * nz), flat / nz % ny, flat % nz];
            if center[0] >= shape[0] {
                return Err(TransformError::new(format!("voxel index {flat} lies outside the {shape:?} voxels"))
                    .advice("make the lists (FgBgToIndices) after the last step that changes the shape")
                    .at(&self.label_key));
            }
            let start: [usize; 3] =
                std::array::from_fn(|a| corrected_center(center[a], size[a], shape[a]) - size[a] / 2);
            let end = std::array::from_fn(|a| start[a] + size[a]);
            let mut part = sample.clone();
            for (_, key) in &keys {
                part.crop(key, start, end)?;
            }
            out.push(part);
        }
        Ok(out)
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), CheckError> {
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
            return Err(CheckError::new("fg_indices_key", "and bg_indices_key go together: give both or none"));
        }
        if !(self.pos >= 0.0 && self.neg >= 0.0 && self.pos + self.neg > 0.0 && (self.pos + self.neg).is_finite()) {
            return Err(CheckError::new("pos", "and neg must not be negative, nor both 0"));
        }
        if self.num_samples == 0 {
            return Err(CheckError::new("num_samples", "is 0"));
        }
        for key in [&self.fg_indices_key, &self.bg_indices_key].into_iter().flatten() {
            known.remove(key);
        }
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

// The lists of a case may also be put into the sample by hand.
impl From<Vec<u64>> for Value {
    fn from(indices: Vec<u64>) -> Self {
        Value::Indices(indices.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula of MONAI's `correct_crop_centers`, in floating point as there.
    #[test]
    fn centers_are_monais() {
        for n in 1..12_usize {
            for size in 1..=n {
                for c in 0..n {
                    let low = size / 2;
                    let mut high = (n as f64 + 1.0 - size as f64 / 2.0).floor() as usize;
                    if low == high {
                        high += 1;
                    }
                    let got = corrected_center(c, size, n);
                    assert_eq!(got, c.max(low).min(high - 1), "n {n} size {size} c {c}");
                    assert!(got - size / 2 + size <= n);
                }
            }
        }
    }

    #[test]
    fn an_empty_list_forces_the_other() {
        assert_eq!(foreground_ratio(1.0, 3.0, 5, 5), Ok(0.25));
        assert_eq!(foreground_ratio(1.0, 3.0, 0, 5), Ok(0.0));
        assert_eq!(foreground_ratio(1.0, 3.0, 5, 0), Ok(1.0));
        assert!(foreground_ratio(1.0, 1.0, 0, 0).is_err());
    }
}
