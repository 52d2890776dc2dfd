use std::collections::BTreeSet;

use hearth_image::TransformError;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Guidance, factors, guidance, image};
use crate::params::check_key;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Scales guidance from the size of the image's file to the current size of the image (MONAI's
/// `ResizeGuidanceMultipleLabelDeepEditd`). Use it after `Resize`, for clicks that
/// [`AddGuidanceFromPointsDeepEdit`](crate::transforms::AddGuidanceFromPointsDeepEdit) collected
/// before.
///
/// ```
/// # use hearth_transforms::{Sample, Value, tiny};
/// # use hearth_transforms::transforms::{Resize, ResizeGuidanceMultipleLabelDeepEdit};
/// let resized = tiny::apply(Resize::new("image", [8, 3, 2]), tiny::ramp([1, 4, 3, 2]))?;
/// let sample = Sample::new("case").with_image("image", resized);
/// let sample = sample.with("guidance", Value::Text(r#"{"spleen": [[3, 1, 1]]}"#.to_owned()));
/// let made = tiny::run(ResizeGuidanceMultipleLabelDeepEdit::new(), sample)?;
/// assert!(matches!(made[0].get("guidance")?, Value::Text(text) if text == r#"{"spleen":[[6,1,1]]}"#));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResizeGuidanceMultipleLabelDeepEdit {
    #[serde(default = "guidance")]
    guidance: String,
    #[serde(default = "image")]
    ref_image: String,
}

impl Default for ResizeGuidanceMultipleLabelDeepEdit {
    fn default() -> Self {
        Self::new()
    }
}

impl ResizeGuidanceMultipleLabelDeepEdit {
    /// Creates the transform: scales the value `guidance` to the value `image`.
    pub fn new() -> Self {
        ResizeGuidanceMultipleLabelDeepEdit { guidance: guidance(), ref_image: image() }
    }
}

setters!(ResizeGuidanceMultipleLabelDeepEdit {
    /// Key of the guidance.
    guidance: String,
    /// Key of the image.
    ref_image: String,
});

impl Transform for ResizeGuidanceMultipleLabelDeepEdit {
    fn effect(&self) -> Effect {
        Effect::Nothing
    }

    fn other_keys(&self) -> Vec<&str> {
        vec![&self.guidance, &self.ref_image]
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let image = sample.image(&self.ref_image).map_err(|e| e.at(&self.ref_image))?;
        let factors = factors(image).map_err(|e| e.at(&self.ref_image))?;
        let scaled = Guidance::of(&sample, &self.guidance)?.scaled(factors);
        sample.values.insert(self.guidance.clone(), scaled.value());
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        check_key("guidance", &self.guidance, known)?;
        check_key("ref_image", &self.ref_image, known)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    ResizeGuidanceMultipleLabelDeepEdit,
    r#"guidance = "guidance"
ref_image = "image""#
);
