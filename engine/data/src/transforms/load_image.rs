use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{CheckError, Draw, Sample, TransformError, Value};

/// Reads the file of each key: NIfTI (`.nii`, `.nii.gz`, `.hdr`/`.img`) to f32, channel first.
///
/// A 4-D file's last axis becomes the channels, as MONAI's `LoadImage` and `EnsureChannelFirst` together have it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadImage {
    keys: Keys,
    #[serde(default)]
    allow_missing_keys: bool,
    /// Accepted for MONAI's sake: an image always has a channel axis here.
    #[serde(default, skip_serializing)]
    #[allow(dead_code)]
    ensure_channel_first: bool,
    /// Accepted for MONAI's sake: metadata always travel with the image.
    #[serde(default, skip_serializing)]
    #[allow(dead_code)]
    image_only: bool,
}

impl LoadImage {
    /// Loads these keys.
    pub fn new(keys: impl Into<Keys>) -> Self {
        LoadImage { keys: keys.into(), allow_missing_keys: false, ensure_channel_first: true, image_only: true }
    }
}

setters!(LoadImage {
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for LoadImage {
    fn name(&self) -> &'static str {
        "LoadImage"
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            let path = match sample.get(key).map_err(|e| e.at(key))? {
                Value::Path(path) => path.clone(),
                // An image that is already in memory is taken as loaded.
                Value::Image(_) => continue,
                other => {
                    return Err(TransformError::new(format!("`{key}` is {}", other.kind())).expected("a path").at(key));
                }
            };
            let image = crate::nifti::read_nifti(&path).map_err(|e| TransformError::new(e.to_string()).at(key))?;
            sample.values.insert(key.to_owned(), Value::Image(image));
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), CheckError> {
        if self.keys.is_empty() {
            return Err(CheckError::new("keys", "names no value"));
        }
        known.extend(self.keys.iter().map(str::to_owned));
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}
