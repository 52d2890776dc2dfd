use std::collections::BTreeSet;

use hearth_image::{OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::flip::{check_axes, flip_along};
use crate::params::{Keys, check_probability};
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Reverses `spatial_axis` (one, several, or by default all) with probability `prob`, in the same
/// way for all keys.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandFlip};
/// let image = tiny::apply(RandFlip::new("image").prob(1.0), tiny::line([1.0, 2.0, 3.0]))?;
/// assert_eq!(image.to_vec(), [3.0, 2.0, 1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandFlip {
    keys: Keys,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    spatial_axis: Option<OneOrMany<i64>>,
    #[serde(default)]
    allow_missing_keys: bool,
}

pub(super) fn tenth() -> f64 {
    0.1
}

/// Resolves axes as in Python: negative ones count from the end.
pub(super) fn resolve_axis(axis: i64, n: usize) -> Result<usize, TransformError> {
    let resolved = if axis < 0 { axis + n as i64 } else { axis };
    if (0..n as i64).contains(&resolved) {
        Ok(resolved as usize)
    } else {
        Err(TransformError::new(format!("there is no spatial axis {axis}")).expected(format!("an axis of {n}")))
    }
}

impl RandFlip {
    /// Creates the transform: reverses all axes, with probability 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandFlip { keys: keys.into(), prob: tenth(), spatial_axis: None, allow_missing_keys: false }
    }
}

setters!(RandFlip {
    /// Probability that the transform is applied.
    prob: f64,
    /// Axes that are reversed.
    spatial_axis: Option<OneOrMany<i64>>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandFlip {
    fn name(&self) -> &'static str {
        "RandFlip"
    }

    fn is_random(&self) -> bool {
        true
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn effect(&self) -> Effect {
        Effect::Moves
    }

    fn apply(&self, mut sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        if draw.happens(self.prob) {
            for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
                sample.update(key, |image| flip_along(image, self.spatial_axis.as_ref()))?;
            }
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_probability(self.prob)?;
        check_axes(self.spatial_axis.as_ref())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    RandFlip,
    r#"keys = ["image", "label"]
prob = 0.5
spatial_axis = 0"#
);
