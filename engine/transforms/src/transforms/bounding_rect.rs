use std::collections::BTreeSet;
use std::sync::Arc;

use hearth_image::spatial::foreground_box;
use hearth_image::{Image, Select, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample, Value};

/// Finds the box around the voxels that `select_fn` matches, for each channel separately, and
/// stores it under `KEY_bbox`.
///
/// The numbers are start and end (exclusive) of each axis, channel after channel; zeros for a
/// channel without such a voxel.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::BoundingRect};
/// let boxes = BoundingRect::new("image").boxes(&tiny::line([0.0, 1.0, 1.0, 0.0]))?;
/// assert_eq!(boxes, [[1, 3, 0, 1, 0, 1]]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BoundingRect {
    keys: Keys,
    #[serde(default = "bbox")]
    bbox_key_postfix: String,
    #[serde(default)]
    select_fn: Select,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn bbox() -> String {
    "bbox".to_owned()
}

impl BoundingRect {
    /// Creates the transform: around voxels above 0.
    pub fn new(keys: impl Into<Keys>) -> Self {
        BoundingRect {
            keys: keys.into(),
            bbox_key_postfix: bbox(),
            select_fn: Select::default(),
            allow_missing_keys: false,
        }
    }

    /// Returns the box of each channel: start and end of each axis.
    ///
    /// # Errors
    /// If reading from the device fails.
    pub fn boxes(&self, image: &Image) -> Result<Vec<Vec<u64>>, TransformError> {
        (0..image.channels() as i64)
            .map(|channel| {
                let found = foreground_box(image, self.select_fn, Some(&[channel]), [0; 3], false)?;
                let sides = (0..image.meta.spatial_dims).flat_map(|a| [found.start[a], found.end[a]]);
                Ok(sides.map(i64::unsigned_abs).collect())
            })
            .collect()
    }
}

setters!(BoundingRect {
    /// Postfix that is appended to the key, after `_`.
    bbox_key_postfix: String,
    /// Comparison that selects voxels; a number means above it.
    select_fn: Select,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for BoundingRect {
    fn name(&self) -> &'static str {
        "BoundingRect"
    }

    fn effect(&self) -> Effect {
        Effect::Nothing
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            let boxes = sample.image(key).and_then(|image| self.boxes(image)).map_err(|e| e.at(key))?;
            let numbers: Arc<[f64]> = boxes.into_iter().flatten().map(|v| v as f64).collect();
            sample.values.insert(format!("{key}_{}", self.bbox_key_postfix), Value::Numbers(numbers));
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        for key in self.keys.iter() {
            let made = format!("{key}_{}", self.bbox_key_postfix);
            if !known.insert(made.clone()) {
                return Err(Fault::at("bbox_key_postfix", format!("there is a value `{made}` already")));
            }
        }
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    BoundingRect,
    r#"keys = ["label"]
select_fn = "> 0""#
);
