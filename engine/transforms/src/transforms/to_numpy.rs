use hearth_image::{TransformError, host_device};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::value_type::ValueType;
use crate::params::Keys;
use crate::{Draw, Sample, Transform, Value};

/// Moves values to host memory (MONAI's `ToNumpyd`), and converts them if a type is given.
///
/// ```
/// # use hearth_transforms::tiny;
/// # use hearth_transforms::transforms::{ToNumpy, ValueType};
/// let image = tiny::apply(ToNumpy::new("image").dtype(ValueType::Int16), tiny::line([1.5, -1.5]))?;
/// assert_eq!(image.to_vec(), [1.0, -1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToNumpy {
    keys: Keys,
    #[serde(default)]
    dtype: Option<ValueType>,
    /// Accepted for compatibility with MONAI: a list of numbers is one value.
    #[serde(default, skip_serializing)]
    #[allow(dead_code, reason = "a parameter of MONAI's that changes nothing here")]
    wrap_sequence: Option<bool>,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl ToNumpy {
    /// Creates the transform: the type of the values is unchanged.
    pub fn new(keys: impl Into<Keys>) -> Self {
        ToNumpy { keys: keys.into(), dtype: None, wrap_sequence: None, allow_missing_keys: false }
    }
}

setters!(ToNumpy {
    /// Type of the values; by default unchanged.
    dtype: Option<ValueType>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for ToNumpy {
    fn through_host(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            if let Value::Image(_) = sample.get(key).map_err(|e| e.at(key))? {
                sample.update(key, |image| {
                    let image = image.to_device(&host_device());
                    Ok(match self.dtype {
                        Some(dtype) => dtype.cast(image),
                        None => image,
                    })
                })?;
            }
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut std::collections::BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)
    }

    fn describe(&self) -> serde_json::Value {
        crate::transform::describe("ToNumpy", self)
    }
}

transform_entry!(ToNumpy, r#"keys = ["pred"]"#);
