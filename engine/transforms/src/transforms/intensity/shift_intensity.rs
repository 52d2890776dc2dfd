use std::collections::BTreeSet;

use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::linear::{Linear, map_linear};
use super::ranges::{check_finite, for_channels};
use crate::params::{Keys, check_key};
use crate::transform::{Transform, describe};
use crate::{Draw, Sample, Value};

/// Adds `offset`, optionally times the number of the sample under `factor_key` (one name, or one
/// per key).
///
/// ```
/// # use hearth_transforms::{tiny, transforms::ShiftIntensity};
/// let image = tiny::apply(ShiftIntensity::new("image", 1.0), tiny::line([1.0, 2.0]))?;
/// assert_eq!(image.to_vec(), [2.0, 3.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShiftIntensity {
    keys: Keys,
    /// Number that is added.
    offset: f64,
    #[serde(default)]
    factor_key: Option<OneOrMany<String>>,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl ShiftIntensity {
    /// Creates the transform: adds `offset`.
    pub fn new(keys: impl Into<Keys>, offset: f64) -> Self {
        ShiftIntensity { keys: keys.into(), offset, factor_key: None, allow_missing_keys: false }
    }

    /// Shifts one image.
    pub fn shift(&self, image: Image) -> Image {
        shift(image, &[self.offset], 1.0)
    }
}

/// Adds one number to the image, or one to each channel, times a factor.
pub(super) fn shift(image: Image, offsets: &[f64], factor: f64) -> Image {
    let maps: Vec<Linear> =
        offsets.iter().map(|o| Linear { offset: (o * factor) as f32, ..Linear::IDENTITY }).collect();
    let maps = for_channels(&maps, image.channels());
    map_linear(image, &maps)
}

/// Returns the number of the sample for the key at an index; 1 without a name.
pub(super) fn factor_of(
    names: Option<&OneOrMany<String>>,
    place: usize,
    sample: &Sample,
) -> Result<f64, TransformError> {
    let Some(names) = names else { return Ok(1.0) };
    let names = names.as_slice();
    let Some(name) = names.get(place).or(names.last()) else { return Ok(1.0) };
    match sample.get(name)? {
        Value::Number(factor) => Ok(*factor),
        other => Err(TransformError::new(format!("`{name}` is {}", other.kind())).expected("a number")),
    }
}

/// Checks that the names are known, and that there is one, or one per key.
pub(super) fn check_factor_key(
    names: Option<&OneOrMany<String>>,
    keys: &Keys,
    known: &BTreeSet<String>,
) -> Result<(), Fault> {
    let Some(names) = names else { return Ok(()) };
    keys.check_list("factor_key", names)?;
    names.as_slice().iter().try_for_each(|name| check_key("factor_key", name, known))
}

setters!(ShiftIntensity {
    /// Key of the sample's number by which the offset is multiplied.
    factor_key: Option<OneOrMany<String>>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for ShiftIntensity {
    fn name(&self) -> &'static str {
        "ShiftIntensity"
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
            let factor = factor_of(self.factor_key.as_ref(), place, &sample)?;
            sample.update(key, |image| Ok(shift(image, &[self.offset], factor)))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_factor_key(self.factor_key.as_ref(), &self.keys, known)?;
        check_finite("offset", self.offset)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    ShiftIntensity,
    r#"keys = ["image"]
offset = 0.5"#
);
