use std::collections::BTreeSet;

use hearth_image::TransformError;
use hearth_image::spatial::flip;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rand_flip::tenth;
use crate::params::{Keys, check_probability};
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Reverses one axis, drawn at random, with probability `prob`, in the same way for all keys. The
/// probability is drawn first, then the axis.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandAxisFlip};
/// let image = tiny::apply(RandAxisFlip::new("image").prob(1.0), tiny::ramp([1, 2, 2, 2]))?;
/// // Along the first, the second or the third axis.
/// assert!([4.0, 2.0, 1.0].contains(&image.to_vec()[0]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandAxisFlip {
    keys: Keys,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl RandAxisFlip {
    /// Creates the transform, with probability 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandAxisFlip { keys: keys.into(), prob: tenth(), allow_missing_keys: false }
    }
}

setters!(RandAxisFlip {
    /// Probability that the transform is applied.
    prob: f64,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandAxisFlip {
    fn name(&self) -> &'static str {
        "RandAxisFlip"
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
        if !draw.happens(self.prob) {
            return Ok(vec![sample]);
        }
        let keys = self.keys.of(&sample, self.allow_missing_keys);
        if let Some((_, first)) = keys.first() {
            let axis = draw.below(sample.image(first)?.meta.spatial_dims as u64) as usize;
            for (_, key) in keys {
                sample.update(key, |image| match image.meta.spatial_dims {
                    n if axis < n => Ok(flip(image, &[axis])),
                    n => Err(TransformError::new(format!("an image of {n} axes next to one of more"))),
                })?;
            }
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_probability(self.prob)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    RandAxisFlip,
    r#"keys = ["image", "label"]
prob = 0.5"#
);
