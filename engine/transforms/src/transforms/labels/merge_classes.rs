use burn::tensor::Tensor;
use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;

/// Combines masks of classes, which may overlap, to one label map: a voxel gets the index of the
/// first channel after channel 0 that is set, or else 0 (`MergeClassesd` of MONAI's bundle
/// `renalStructures_CECT_segmentation`).
///
/// ```
/// # use hearth_transforms::{tiny, transforms::MergeClasses};
/// let masks = tiny::image([3, 4, 1, 1], [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0]);
/// assert_eq!(tiny::apply(MergeClasses::new("image"), masks)?.to_vec(), [0.0, 1.0, 2.0, 1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MergeClasses {
    keys: Keys,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl MergeClasses {
    /// Creates the transform: merges the channels of these images.
    pub fn new(keys: impl Into<Keys>) -> Self {
        MergeClasses { keys: keys.into(), allow_missing_keys: false }
    }

    /// Merges the channels of one image.
    ///
    /// # Errors
    /// Never; the type matches that of other transforms of one image.
    pub fn merge(&self, mut image: Image) -> Result<Image, TransformError> {
        let [channels, x, y, z] = image.data.dims();
        let labels = Tensor::zeros([1, x, y, z], &image.data.device());
        // From the last channel to the first, so that the lowest index is kept.
        image.data = (1..channels).rev().fold(labels, |labels, channel| {
            let mask = image.data.clone().narrow(0, channel, 1).not_equal_elem(0.0);
            labels.mask_fill(mask, channel as f32)
        });
        Ok(image)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        Ok(())
    }
}

setters!(MergeClasses {
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(MergeClasses, merge, maps_labels: true);

transform_entry!(MergeClasses, r#"keys = ["pred"]"#);

#[cfg(test)]
mod tests {
    use super::super::tests::{rows, stack, values};
    use super::MergeClasses;
    use crate::tiny;

    #[test]
    fn the_lowest_channel_above_zero_that_is_set_counts() -> Result<(), hearth_image::TransformError> {
        let masks = stack(&[
            rows(&[[1, 1, 0, 0], [1, 0, 0, 0]]),
            rows(&[[0, 1, 0, 0], [0, 0, 1, 1]]),
            rows(&[[0, 1, 1, 0], [0, 0, 0, 1]]),
            rows(&[[0, 0, 1, 1], [0, 0, 1, 1]]),
        ]);
        let merged = tiny::apply(MergeClasses::new("image"), masks)?;
        assert_eq!(values(&merged), [0, 1, 2, 3, 0, 0, 1, 1]);
        assert_eq!(merged.channels(), 1);
        Ok(())
    }

    #[test]
    fn one_channel_is_background_only() -> Result<(), hearth_image::TransformError> {
        let merged = tiny::apply(MergeClasses::new("image"), tiny::line([1.0, 0.0]))?;
        assert_eq!(merged.to_vec(), [0.0, 0.0]);
        Ok(())
    }
}
