use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check_labels;
use crate::params::Keys;
use crate::transforms::intensity::map;

/// Keeps the labels of `applied_labels` and sets all others to 0.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::LabelFilter};
/// let image = tiny::apply(LabelFilter::new("image", 2), tiny::line([0.0, 1.0, 2.0]))?;
/// assert_eq!(image.to_vec(), [0.0, 0.0, 2.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelFilter {
    keys: Keys,
    /// Labels that are kept.
    applied_labels: OneOrMany<i64>,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl LabelFilter {
    /// Creates the transform: keeps these labels.
    pub fn new(keys: impl Into<Keys>, applied_labels: impl Into<OneOrMany<i64>>) -> Self {
        LabelFilter { keys: keys.into(), applied_labels: applied_labels.into(), allow_missing_keys: false }
    }

    /// Filters one image.
    pub fn filter(&self, image: Image) -> Image {
        let labels: Vec<f32> = self.applied_labels.as_slice().iter().map(|l| *l as f32).collect();
        map(
            image,
            |x| if labels.contains(&x) { x } else { 0.0 },
            |x| {
                let none = x.zeros_like();
                labels.iter().fold(none, |kept, label| kept.mask_fill(x.clone().equal_elem(*label), *label))
            },
        )
    }

    fn change(&self, image: Image) -> Result<Image, TransformError> {
        Ok(self.filter(image))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_labels("applied_labels", &self.applied_labels)
    }
}

setters!(LabelFilter {
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(LabelFilter, change, maps_labels: true);

transform_entry!(
    LabelFilter,
    r#"keys = ["label"]
applied_labels = [1]"#
);
