use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::value_type::ValueType;
use crate::params::Keys;
use crate::{Draw, Sample, Transform, Value};

/// Converts values to another type (MONAI's `CastToTyped`).
///
/// Values stay f32 in memory, so a floating-point type with at least as many digits has no effect;
/// an integer type truncates fractions.
///
/// ```
/// # use hearth_transforms::tiny;
/// # use hearth_transforms::transforms::{CastToType, ValueType};
/// let cast = CastToType::new("image").dtype(ValueType::UInt8);
/// assert_eq!(tiny::apply(cast, tiny::line([0.4, 1.6]))?.to_vec(), [0.0, 1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CastToType {
    keys: Keys,
    #[serde(default = "float32")]
    dtype: OneOrMany<ValueType>,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn float32() -> OneOrMany<ValueType> {
    OneOrMany::One(ValueType::Float32)
}

impl CastToType {
    /// Creates the transform: converts to f32.
    pub fn new(keys: impl Into<Keys>) -> Self {
        CastToType { keys: keys.into(), dtype: float32(), allow_missing_keys: false }
    }

    /// Converts one image; `place` is the index of its key.
    pub fn cast(&self, image: Image, place: usize) -> Image {
        self.dtype.at(place).unwrap_or(ValueType::Float32).cast(image)
    }
}

setters!(CastToType {
    /// Type, one or per key: `float32`, `int16`, `uint8`, `bool`, ...
    dtype: OneOrMany<ValueType>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for CastToType {
    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
            // A number is a class or a measurement and has no separate type.
            if let Value::Image(_) = sample.get(key).map_err(|e| e.at(key))? {
                sample.update(key, |image| Ok(self.cast(image, place)))?;
            }
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut std::collections::BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        self.keys.check_list("dtype", &self.dtype)
    }

    fn describe(&self) -> serde_json::Value {
        crate::transform::describe("CastToType", self)
    }
}

transform_entry!(
    CastToType,
    r#"keys = ["image", "label"]
dtype = ["float32", "uint8"]"#
);
