use std::collections::BTreeSet;

use hearth_image::TransformError;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Guidance, clicks, factors, guidance, image};
use crate::params::check_key;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Collects the clicks of all labels in the value `guidance`, scaled from the size of the image's
/// file to the current size of the image (MONAI's `AddGuidanceFromPointsDeepEditd`, Diaz-Pinto et
/// al., <https://arxiv.org/abs/2203.12362>).
///
/// The value of each label holds the coordinates of its clicks, three each, one click after the
/// other; a label without a value has no clicks. Coordinates are truncated to whole numbers before
/// and after scaling. The guidance is a text: a JSON object of lists of points in the order of the
/// labels.
///
/// ```
/// # use hearth_transforms::{Sample, Value, tiny, transforms::AddGuidanceFromPointsDeepEdit};
/// let sample = Sample::new("case").with_image("image", tiny::ramp([1, 4, 3, 2]));
/// let sample = sample.with("spleen", Value::Numbers([3.0, 1.0, 1.0].as_slice().into()));
/// let made = tiny::run(AddGuidanceFromPointsDeepEdit::new(["spleen", "background"]), sample)?;
/// let wanted = r#"{"spleen":[[3,1,1]],"background":[]}"#;
/// assert!(matches!(made[0].get("guidance")?, Value::Text(text) if text == wanted));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddGuidanceFromPointsDeepEdit {
    #[serde(default = "image")]
    ref_image: String,
    #[serde(default = "guidance")]
    guidance: String,
    label_names: Vec<String>,
}

impl AddGuidanceFromPointsDeepEdit {
    /// Creates the transform: collects the clicks of these labels on the value `image`.
    pub fn new<S: Into<String>>(label_names: impl IntoIterator<Item = S>) -> Self {
        let label_names = label_names.into_iter().map(Into::into).collect();
        AddGuidanceFromPointsDeepEdit { ref_image: image(), guidance: guidance(), label_names }
    }
}

setters!(AddGuidanceFromPointsDeepEdit {
    /// Key of the image.
    ref_image: String,
    /// Key of the guidance that is created.
    guidance: String,
    /// Labels, which are the keys of their clicks, in the order of their channels.
    label_names: Vec<String>,
});

impl Transform for AddGuidanceFromPointsDeepEdit {
    fn effect(&self) -> Effect {
        Effect::Nothing
    }

    fn other_keys(&self) -> Vec<&str> {
        std::iter::once(&self.ref_image).chain(&self.label_names).map(String::as_str).collect()
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let image = sample.image(&self.ref_image).map_err(|e| e.at(&self.ref_image))?;
        let factors = factors(image).map_err(|e| e.at(&self.ref_image))?;
        let whole = |label: &String| {
            let points = clicks(&sample, label)?.into_iter();
            Ok((label.clone(), points.map(|at| at.map(|at| at.trunc() as i64).to_vec()).collect()))
        };
        let all: Result<_, TransformError> = self.label_names.iter().map(whole).collect();
        let gathered = Guidance(all?).scaled(factors);
        sample.values.insert(self.guidance.clone(), gathered.value());
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        check_key("ref_image", &self.ref_image, known)?;
        if self.label_names.is_empty() {
            return Err(Fault::at("label_names", "is empty; expected the labels that may have clicks"));
        }
        known.insert(self.guidance.clone());
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    AddGuidanceFromPointsDeepEdit,
    r#"ref_image = "image"
guidance = "guidance"
label_names = ["spleen", "background"]"#
);

#[cfg(test)]
mod tests {
    use super::AddGuidanceFromPointsDeepEdit;
    use crate::transforms::{Resize, ResizeGuidanceMultipleLabelDeepEdit};
    use crate::{Sample, Value, tiny};
    use hearth_image::TransformError;

    fn text(sample: &Sample) -> Result<String, TransformError> {
        match sample.get("guidance")? {
            Value::Text(text) => Ok(text.clone()),
            other => Err(TransformError::new(other.kind())),
        }
    }

    /// `int(3.9) * 8 / 4` is 6, and the size of the file is that of the factor each time.
    #[test]
    fn clicks_follow_the_size_of_the_image() -> Result<(), TransformError> {
        let sample = Sample::new("case").with_image("image", tiny::ramp([1, 4, 3, 2]));
        let sample = sample.with("a", Value::Numbers([3.9, 1.0, -1.5, 0.0, 2.0, 1.0].as_slice().into()));
        let points = || AddGuidanceFromPointsDeepEdit::new(["b", "a"]);
        let made = tiny::run(points(), sample)?.remove(0);
        assert_eq!(text(&made)?, r#"{"b":[],"a":[[3,1,-1],[0,2,1]]}"#);
        let made = tiny::run(Resize::new("image", [8, 2, 4]), made)?.remove(0);
        let resized = tiny::run(ResizeGuidanceMultipleLabelDeepEdit::new(), made.clone())?.remove(0);
        assert_eq!(text(&resized)?, r#"{"b":[],"a":[[6,0,-2],[0,1,2]]}"#);
        assert_eq!(text(&tiny::run(points(), made)?[0])?, r#"{"b":[],"a":[[6,0,-2],[0,1,2]]}"#);
        Ok(())
    }
}
