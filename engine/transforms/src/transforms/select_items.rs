use std::collections::BTreeSet;

use hearth_image::TransformError;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Keeps these values and drops all others.
///
/// ```
/// # use hearth_transforms::{Sample, tiny, transforms::SelectItems};
/// let sample = Sample::new("case").with_image("image", tiny::line([1.0]));
/// let sample = sample.with_image("label", tiny::line([0.0]));
/// let made = tiny::run(SelectItems::new("image"), sample)?;
/// assert!(made[0].image("image").is_ok() && made[0].get("label").is_err());
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SelectItems {
    keys: Keys,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl SelectItems {
    /// Creates the transform: keeps these values.
    pub fn new(keys: impl Into<Keys>) -> Self {
        SelectItems { keys: keys.into(), allow_missing_keys: false }
    }
}

setters!(SelectItems {
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for SelectItems {
    fn name(&self) -> &'static str {
        "SelectItems"
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn reads_boxes(&self, _key: &str) -> bool {
        true
    }

    fn effect(&self) -> Effect {
        Effect::Nothing
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.get(key)?;
        }
        sample.values.retain(|name, _| self.keys.iter().any(|key| key == name));
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        known.retain(|name| self.keys.iter().any(|key| key == name));
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(SelectItems, r#"keys = ["image", "label"]"#);
