use std::collections::BTreeSet;

use hearth_kernels::host;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{CheckError, Draw, Image, Sample, TransformError};

/// Maps `a_min..a_max` to `b_min..b_max` linearly, then clips to the latter if asked. Without `b_min` and `b_max`, to 0..1.
///
/// `a_min == a_max` leaves the values but for a shift: `x - a_min + b_min`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScaleIntensityRange {
    keys: Keys,
    a_min: f64,
    a_max: f64,
    #[serde(default)]
    b_min: Option<f64>,
    #[serde(default)]
    b_max: Option<f64>,
    #[serde(default)]
    clip: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl ScaleIntensityRange {
    /// From `a_min..a_max` to 0..1, not clipped.
    pub fn new(keys: impl Into<Keys>, a_min: f64, a_max: f64) -> Self {
        ScaleIntensityRange {
            keys: keys.into(),
            a_min,
            a_max,
            b_min: None,
            b_max: None,
            clip: false,
            allow_missing_keys: false,
        }
    }

    /// Scales one image.
    pub fn scale(&self, mut image: Image) -> Image {
        // x -> (x - shift) * factor + offset
        let shift = self.a_min as f32;
        let (factor, offset) = if self.a_max == self.a_min {
            (1.0, self.b_min.unwrap_or(0.0))
        } else {
            match (self.b_min, self.b_max) {
                (Some(low), Some(high)) => ((high - low) / (self.a_max - self.a_min), low),
                _ => (1.0 / (self.a_max - self.a_min), 0.0),
            }
        };
        let (factor, offset) = (factor as f32, offset as f32);
        let clip = if self.clip && self.a_max != self.a_min {
            (self.b_min.map_or(f32::MIN, |v| v as f32), self.b_max.map_or(f32::MAX, |v| v as f32))
        } else {
            (f32::NEG_INFINITY, f32::INFINITY)
        };
        let clips = clip.0.is_finite() || clip.1.is_finite();
        let (low, high) = (clip.0.min(clip.1), clip.1);
        let scaled = host::change(image.data, |values| {
            values.par_chunks_mut(1 << 16).for_each(|values| {
                if clips {
                    values.iter_mut().for_each(|v| *v = ((*v - shift) * factor + offset).clamp(low, high));
                } else {
                    values.iter_mut().for_each(|v| *v = (*v - shift) * factor + offset);
                }
            });
        });
        image.data = scaled.unwrap_or_else(|data| {
            let data = (data - shift) * factor + offset;
            if clips { data.clamp(low, high) } else { data }
        });
        image
    }
}

setters!(ScaleIntensityRange {
    /// Lower end of the new range.
    b_min: Option<f64>,
    /// Upper end of the new range.
    b_max: Option<f64>,
    /// Clip to the new range.
    clip: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for ScaleIntensityRange {
    fn name(&self) -> &'static str {
        "ScaleIntensityRange"
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |image| Ok(self.scale(image)))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), CheckError> {
        self.keys.check(known)?;
        for (name, value) in
            [("a_min", Some(self.a_min)), ("a_max", Some(self.a_max)), ("b_min", self.b_min), ("b_max", self.b_max)]
        {
            if value.is_some_and(|v| !v.is_finite()) {
                return Err(CheckError::new(name, "is not a finite number"));
            }
        }
        match (self.b_min, self.b_max) {
            (Some(low), Some(high)) if self.clip && low > high => Err(CheckError::new(
                "b_min",
                format!("{low} is larger than b_max = {high}, so nothing is left to clip to"),
            )),
            _ => Ok(()),
        }
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}
