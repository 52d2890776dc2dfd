use std::collections::BTreeSet;

use hearth_image::{OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ranges::{check_symmetric, per_channel, symmetric};
use super::shift_intensity::{check_factor_key, factor_of, shift};
use crate::params::{Keys, check_probability};
use crate::transform::{Transform, describe};
use crate::transforms::rand_flip::tenth;
use crate::{Draw, Sample};

/// Adds a number drawn uniformly from `offsets`, with probability `prob`.
///
/// A single number `offsets` means -offsets..offsets. With `channel_wise` each channel has its own
/// draw. All keys share the draws; with `factor_key` each key multiplies them by the sample's
/// number of that name.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandShiftIntensity};
/// let step = RandShiftIntensity::new("image", [1.0, 1.0]).prob(1.0);
/// assert_eq!(tiny::apply(step, tiny::line([1.0, 2.0]))?.to_vec(), [2.0, 3.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandShiftIntensity {
    keys: Keys,
    /// Range of the number that is added: -offsets..offsets, or a pair.
    offsets: OneOrMany<f64>,
    #[serde(default)]
    factor_key: Option<OneOrMany<String>>,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    channel_wise: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl RandShiftIntensity {
    /// Creates the transform, with probability 0.1.
    pub fn new(keys: impl Into<Keys>, offsets: impl Into<OneOrMany<f64>>) -> Self {
        RandShiftIntensity {
            keys: keys.into(),
            offsets: offsets.into(),
            factor_key: None,
            prob: tenth(),
            channel_wise: false,
            allow_missing_keys: false,
        }
    }
}

setters!(RandShiftIntensity {
    /// Key of the sample's number by which the offset is multiplied.
    factor_key: Option<OneOrMany<String>>,
    /// Probability that the transform is applied.
    prob: f64,
    /// Whether each channel draws its own number.
    channel_wise: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandShiftIntensity {
    fn name(&self) -> &'static str {
        "RandShiftIntensity"
    }

    fn is_random(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        if !draw.happens(self.prob) {
            return Ok(vec![sample]);
        }
        let keys = self.keys.of(&sample, self.allow_missing_keys);
        let images = keys.iter().map(|(_, key)| sample.image(key).map_err(|e| e.at(key)));
        let images = images.collect::<Result<Vec<_>, _>>()?;
        let drawn = per_channel(draw, symmetric(&self.offsets), self.channel_wise, &images);
        for (place, key) in keys {
            let factor = factor_of(self.factor_key.as_ref(), place, &sample)?;
            sample.update(key, |image| Ok(shift(image, &drawn, factor)))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_probability(self.prob)?;
        check_factor_key(self.factor_key.as_ref(), &self.keys, known)?;
        check_symmetric("offsets", &self.offsets)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    RandShiftIntensity,
    r#"keys = ["image"]
offsets = 0.1
prob = 0.5"#
);
