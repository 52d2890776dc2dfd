use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{channels_of, check_labels, select};
use crate::params::Keys;
use crate::transforms::intensity::map;

/// Creates a mask of the labels `select_labels`: 1 where a label map has one of them; for a one-hot
/// map, these channels.
///
/// With `merge_channels` the result has one channel, 1 where any of them is not 0.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::LabelToMask};
/// let image = tiny::apply(LabelToMask::new("image", 2), tiny::line([0.0, 1.0, 2.0]))?;
/// assert_eq!(image.to_vec(), [0.0, 0.0, 1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelToMask {
    keys: Keys,
    /// Labels that become 1.
    select_labels: OneOrMany<i64>,
    #[serde(default)]
    merge_channels: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl LabelToMask {
    /// Creates the transform: the mask of these labels.
    pub fn new(keys: impl Into<Keys>, select_labels: impl Into<OneOrMany<i64>>) -> Self {
        LabelToMask {
            keys: keys.into(),
            select_labels: select_labels.into(),
            merge_channels: false,
            allow_missing_keys: false,
        }
    }

    /// Computes the mask of one image.
    ///
    /// # Errors
    /// If a label names no channel of a one-hot map.
    pub fn mask(&self, mut image: Image) -> Result<Image, TransformError> {
        let labels = self.select_labels.as_slice();
        if image.channels() > 1 {
            image.data = select(&image, &channels_of(labels, image.channels())?);
            if self.merge_channels {
                image.data = image.data.not_equal_elem(0.0).float().max_dim(0);
            }
            return Ok(image);
        }
        let labels: Vec<f32> = labels.iter().map(|l| *l as f32).collect();
        Ok(map(
            image,
            |x| f32::from(labels.contains(&x)),
            |x| {
                let none = x.zeros_like();
                labels.iter().fold(none, |mask, label| mask.mask_fill(x.clone().equal_elem(*label), 1.0))
            },
        ))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_labels("select_labels", &self.select_labels)
    }
}

setters!(LabelToMask {
    /// Whether all labels share one channel.
    merge_channels: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(LabelToMask, mask, maps_labels: true);

transform_entry!(
    LabelToMask,
    r#"keys = ["label"]
select_labels = [1, 2]"#
);
