use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::rand_flip::{resolve_axis, tenth};
use crate::params::{Keys, check_probability};
use crate::spatial::rotate90;
use crate::transform::{Transform, describe};
use crate::{CheckError, Draw, Sample, TransformError};

/// Rotates by 1 to `max_k` quarter turns in the plane of two axes, the first towards the second, with probability `prob`, for all
/// keys alike. The probability is drawn first, then the number of turns.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandRotate90 {
    keys: Keys,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default = "three")]
    max_k: u64,
    #[serde(default = "first_two")]
    spatial_axes: [i64; 2],
    #[serde(default)]
    allow_missing_keys: bool,
}

fn three() -> u64 {
    3
}

fn first_two() -> [i64; 2] {
    [0, 1]
}

impl RandRotate90 {
    /// In the plane of the first two axes, with probability 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandRotate90 {
            keys: keys.into(),
            prob: tenth(),
            max_k: three(),
            spatial_axes: first_two(),
            allow_missing_keys: false,
        }
    }
}

setters!(RandRotate90 {
    /// How often.
    prob: f64,
    /// At most this many quarter turns.
    max_k: u64,
    /// The two axes.
    spatial_axes: [i64; 2],
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandRotate90 {
    fn name(&self) -> &'static str {
        "RandRotate90"
    }

    fn is_random(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        if draw.happens(self.prob) {
            let k = 1 + draw.below(self.max_k) as usize;
            for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
                sample.update(key, |image| {
                    let n = image.meta.spatial_dims;
                    let [first, second] = self.spatial_axes;
                    Ok(rotate90(image, k, resolve_axis(first, n)?, resolve_axis(second, n)?))
                })?;
            }
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), CheckError> {
        self.keys.check(known)?;
        check_probability(self.prob)?;
        if self.max_k == 0 {
            return Err(CheckError::new("max_k", "is 0: there is nothing to choose from"));
        }
        let axis = |a| resolve_axis(a, 3).map_err(|e| CheckError::new("spatial_axes", e.to_string()));
        if axis(self.spatial_axes[0])? == axis(self.spatial_axes[1])? {
            return Err(CheckError::new("spatial_axes", "must be two different axes"));
        }
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}
