use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::value_type::ValueType;
use crate::params::Keys;
use crate::{Draw, Sample, Transform, Value};

/// Converts values to tensors (MONAI's `ToTensord`). Values always are tensors, so only an integer
/// type changes values, and `track_meta = false` removes an image's history.
///
/// ```
/// # use hearth_transforms::tiny;
/// # use hearth_transforms::transforms::{Flip, ToTensor};
/// let flipped = tiny::apply(Flip::new("image"), tiny::line([1.0, 2.0]))?;
/// let image = tiny::apply(ToTensor::new("image").track_meta(false), flipped)?;
/// assert!(image.meta.applied.is_empty());
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToTensor {
    keys: Keys,
    #[serde(default)]
    dtype: Option<ValueType>,
    #[serde(default = "yes")]
    track_meta: bool,
    /// Accepted for compatibility with MONAI: a list of numbers is one value.
    #[serde(default, skip_serializing)]
    #[allow(dead_code, reason = "a parameter of MONAI's that changes nothing here")]
    wrap_sequence: Option<bool>,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn yes() -> bool {
    true
}

impl ToTensor {
    /// Creates the transform: no change.
    pub fn new(keys: impl Into<Keys>) -> Self {
        ToTensor { keys: keys.into(), dtype: None, track_meta: true, wrap_sequence: None, allow_missing_keys: false }
    }

    /// Converts one image.
    pub fn convert(&self, image: Image) -> Image {
        let mut image = match self.dtype {
            Some(dtype) => dtype.cast(image),
            None => image,
        };
        if !self.track_meta {
            image.meta.applied.clear();
            image.meta.header = None;
            image.meta.original_affine = image.affine;
        }
        image
    }
}

setters!(ToTensor {
    /// Type of the values; by default unchanged.
    dtype: Option<ValueType>,
    /// Whether to keep the image's history, so that it can be inverted.
    track_meta: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for ToTensor {
    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            if let Value::Image(_) = sample.get(key).map_err(|e| e.at(key))? {
                sample.update(key, |image| Ok(self.convert(image)))?;
            }
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut std::collections::BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)
    }

    fn describe(&self) -> serde_json::Value {
        crate::transform::describe("ToTensor", self)
    }
}

transform_entry!(ToTensor, r#"keys = ["image"]"#);
