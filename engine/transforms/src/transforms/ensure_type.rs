use std::collections::BTreeSet;

use burn::tensor::{DType, Device};
use hearth_image::TransformError;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::to_device::{Where, choose};
use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Sample};

/// Converts values to f32 tensors, on a device if one is named. With `track_meta = false` images
/// lose their history (predictions can then not be mapped back to the input's grid).
///
/// ```
/// # use hearth_transforms::tiny;
/// # use hearth_transforms::transforms::{EnsureType, Flip};
/// let flipped = tiny::apply(Flip::new("image"), tiny::line([1.0, 2.0]))?;
/// assert_eq!(flipped.meta.applied.len(), 1);
/// let image = tiny::apply(EnsureType::new("image").track_meta(false), flipped)?;
/// assert!(image.meta.applied.is_empty());
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnsureType {
    keys: Keys,
    /// Accepted for compatibility with MONAI: values are always tensors.
    #[serde(default, skip_serializing)]
    #[allow(dead_code, reason = "a parameter of MONAI's that changes nothing here")]
    data_type: Option<DataType>,
    /// Accepted for compatibility with MONAI: values are always f32.
    #[serde(default, skip_serializing)]
    #[allow(dead_code, reason = "a parameter of MONAI's that changes nothing here")]
    dtype: Option<FloatName>,
    /// The target device: the device of the run, or the CPU.
    #[serde(default)]
    device: Option<Where>,
    #[serde(default = "yes")]
    track_meta: bool,
    #[serde(default)]
    allow_missing_keys: bool,
    #[serde(skip)]
    target: Option<Device>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum DataType {
    Tensor,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum FloatName {
    Float32,
}

fn yes() -> bool {
    true
}

impl EnsureType {
    /// Creates the transform: values stay on their device.
    pub fn new(keys: impl Into<Keys>) -> Self {
        EnsureType {
            keys: keys.into(),
            data_type: Some(DataType::Tensor),
            dtype: Some(FloatName::Float32),
            device: None,
            track_meta: true,
            allow_missing_keys: false,
            target: None,
        }
    }

    /// Moves values to this device.
    pub fn device(mut self, device: Device) -> Self {
        self.device = Some(Where::Run);
        self.target = Some(device);
        self
    }
}

setters!(EnsureType {
    /// Whether to keep the image's history, so that it can be inverted.
    track_meta: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for EnsureType {
    fn name(&self) -> &'static str {
        "EnsureType"
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            // Lists of indices are accepted: MONAI's EnsureType often receives them, too.
            if !matches!(sample.get(key).map_err(|e| e.at(key))?, crate::Value::Image(_)) {
                continue;
            }
            sample.update(key, |mut image| {
                if image.data.dtype() != DType::F32 {
                    image.data = image.data.cast(DType::F32);
                }
                if let Some(device) = &self.target {
                    image = image.to_device(device);
                }
                if !self.track_meta {
                    image.meta.applied.clear();
                    image.meta.header = None;
                    image.meta.original_affine = image.affine;
                }
                Ok(image)
            })?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)
    }

    fn place(&mut self, run: Option<&Device>) {
        self.target = self.device.and_then(|place| choose(place, run));
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    EnsureType,
    r#"keys = ["image"]
dtype = "float32""#
);
