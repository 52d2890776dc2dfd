use std::collections::BTreeSet;

use burn::tensor::{DType, Tensor};
use hearth_image::TransformError;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::{Keys, check_key};
use crate::transform::{Transform, describe};
use crate::{Draw, Sample};

/// Appends a label map to an image as channels of 0 and 1, which show the network the selected
/// object (MONAI's `AddLabelAsGuidanced`, used by its classifier of nuclei).
///
/// ```
/// # use hearth_transforms::{Sample, tiny, transforms::AddLabelAsGuidance};
/// let sample = Sample::new("case").with_image("image", tiny::line([0.5, 0.6]));
/// let sample = sample.with_image("label", tiny::line([0.0, 3.0]));
/// let made = tiny::run(AddLabelAsGuidance::new("image"), sample)?;
/// assert_eq!(made[0].image("image")?.to_vec(), [0.5, 0.6, 0.0, 1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddLabelAsGuidance {
    keys: Keys,
    #[serde(default = "label")]
    source: String,
}

fn label() -> String {
    "label".to_owned()
}

impl AddLabelAsGuidance {
    /// Creates the transform: appends the value `label` to these images.
    pub fn new(keys: impl Into<Keys>) -> Self {
        AddLabelAsGuidance { keys: keys.into(), source: label() }
    }
}

setters!(AddLabelAsGuidance {
    /// Key of the label map.
    source: String,
});

impl Transform for AddLabelAsGuidance {
    fn other_keys(&self) -> Vec<&str> {
        vec![&self.source]
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let label = sample.image(&self.source).map_err(|e| e.at(&self.source))?.clone();
        for (_, key) in self.keys.of(&sample, false) {
            sample.update(key, |mut image| {
                if image.shape() != label.shape() {
                    return Err(TransformError::new(format!("the label has {:?} voxels", label.shape()))
                        .expected(format!("{:?}, as the image", image.shape())));
                }
                let guidance = label.clone().to_device(&image.data.device()).data.greater_elem(0.0).float();
                image.data = Tensor::cat(vec![image.data, guidance.cast(DType::F32)], 0);
                Ok(image)
            })?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_key("source", &self.source, known)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    AddLabelAsGuidance,
    r#"keys = ["image"]
source = "label""#
);

#[cfg(test)]
mod tests {
    use super::AddLabelAsGuidance;
    use crate::{Sample, tiny};

    #[test]
    fn a_label_of_another_size_is_refused() {
        let sample = Sample::new("case").with_image("image", tiny::line([0.5, 0.6]));
        let sample = sample.with_image("label", tiny::line([0.0, 3.0, 1.0]));
        let error = tiny::run(AddLabelAsGuidance::new("image"), sample).expect_err("sizes differ");
        assert!(error.to_string().contains("[3, 1, 1]"), "{error}");
    }
}
