use std::collections::BTreeSet;

use hearth_image::TransformError;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Copies values to other keys: `times` copies of each, under `names` (first one name per key, then
/// the names of the second copies, ...), or under `KEY_0`, `KEY_1`, ... A copy shares its voxels
/// until one of the two is changed.
///
/// ```
/// # use hearth_transforms::{Sample, tiny, transforms::CopyItems};
/// let sample = Sample::new("case").with_image("image", tiny::line([1.0, 2.0]));
/// let made = tiny::run(CopyItems::new("image"), sample)?;
/// assert_eq!(made[0].image("image_0")?.to_vec(), [1.0, 2.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CopyItems {
    keys: Keys,
    #[serde(default = "one")]
    times: usize,
    #[serde(default)]
    names: Option<Keys>,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn one() -> usize {
    1
}

impl CopyItems {
    /// Creates the transform: one copy of each value.
    pub fn new(keys: impl Into<Keys>) -> Self {
        CopyItems { keys: keys.into(), times: one(), names: None, allow_missing_keys: false }
    }

    /// Key and name of each copy.
    fn copies(&self) -> Vec<(&str, String)> {
        let numbered = |i: usize| self.keys.iter().map(move |key| (key, format!("{key}_{i}")));
        match &self.names {
            None => (0..self.times).flat_map(numbered).collect(),
            Some(names) => {
                let keys = (0..self.times).flat_map(|_| self.keys.iter());
                keys.zip(names.iter().map(str::to_owned)).collect()
            }
        }
    }
}

setters!(CopyItems {
    /// Number of copies of each value.
    times: usize,
    /// Keys of the copies.
    names: Option<Keys>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for CopyItems {
    fn name(&self) -> &'static str {
        "CopyItems"
    }

    fn reads_boxes(&self, _key: &str) -> bool {
        true
    }

    fn effect(&self) -> Effect {
        Effect::Nothing
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (key, name) in self.copies() {
            if self.allow_missing_keys && !sample.values.contains_key(key) {
                continue;
            }
            let value = sample.get(key)?.clone();
            if sample.values.insert(name.clone(), value).is_some() {
                return Err(TransformError::new(format!("there is a value `{name}` already")).at(key));
            }
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        let wanted = self.keys.len().checked_mul(self.times).filter(|n| (1..=65_536).contains(n));
        let Some(wanted) = wanted else {
            return Err(Fault::at("times", format!("{} is not between 1 and 65536", self.times)));
        };
        if let Some(names) = self.names.as_ref().filter(|names| names.len() != wanted) {
            return Err(Fault::at("names", format!("has {} entries for {wanted} copies", names.len())));
        }
        for (_, name) in self.copies() {
            if !known.insert(name.clone()) {
                return Err(Fault::at("names", format!("there is a value `{name}` already")));
            }
        }
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    CopyItems,
    r#"keys = ["image"]
times = 1
names = "copy""#
);
