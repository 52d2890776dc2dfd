use std::collections::BTreeSet;

use hearth_image::TransformError;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Drops values. Missing values are not an error.
///
/// ```
/// # use hearth_transforms::{Sample, tiny, transforms::DeleteItems};
/// let sample = Sample::new("case").with_image("image", tiny::line([1.0]));
/// let sample = sample.with_image("label", tiny::line([0.0]));
/// let made = tiny::run(DeleteItems::new("label"), sample)?;
/// assert!(made[0].image("image").is_ok() && made[0].get("label").is_err());
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteItems {
    keys: Keys,
}

impl DeleteItems {
    /// Creates the transform: drops these values.
    pub fn new(keys: impl Into<Keys>) -> Self {
        DeleteItems { keys: keys.into() }
    }
}

impl Transform for DeleteItems {
    fn name(&self) -> &'static str {
        "DeleteItems"
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
        sample.values.retain(|name, _| self.keys.iter().all(|key| key != name));
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        known.retain(|name| self.keys.iter().all(|key| key != name));
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

setters!(DeleteItems {});

transform_entry!(DeleteItems, r#"keys = ["other"]"#);
