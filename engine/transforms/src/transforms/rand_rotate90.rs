use std::collections::BTreeSet;

use hearth_image::TransformError;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rand_flip::tenth;
use super::rotate90::{check_plane, first_two, rotate_in_plane};
use crate::params::{Keys, check_probability};
use crate::transform::{Transform, describe};
use crate::{Draw, Sample};

/// Rotates by 1 to `max_k` quarter turns in the plane of two axes, from the first towards the
/// second, with probability `prob`, in the same way for all keys. The probability is drawn first,
/// then the number of turns.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandRotate90};
/// let step = RandRotate90::new("image").prob(1.0).max_k(1_u64);
/// let image = tiny::apply(step, tiny::ramp([1, 2, 3, 1]))?;
/// assert_eq!(image.shape(), [3, 2, 1]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
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

impl RandRotate90 {
    /// Creates the transform: in the plane of the first two axes, with probability 0.1.
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
    /// Probability that the transform is applied.
    prob: f64,
    /// Maximum number of quarter turns.
    max_k: u64,
    /// The two axes of the plane.
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

    fn is_lazy(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        if draw.happens(self.prob) {
            let k = 1 + draw.below(self.max_k) as usize;
            for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
                sample.update(key, |image| rotate_in_plane(image, k, self.spatial_axes))?;
            }
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_probability(self.prob)?;
        if self.max_k == 0 {
            return Err(Fault::at("max_k", "is 0: there is nothing to choose from"));
        }
        check_plane(self.spatial_axes)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    RandRotate90,
    r#"keys = ["image", "label"]
prob = 0.5
max_k = 3
spatial_axes = [0, 1]"#
);
